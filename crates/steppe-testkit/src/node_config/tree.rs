//! Tables of TOML addressed by paths: keys with dots between.

use toml::{Table, Value};

/// The table that `text` is.
#[track_caller]
pub fn parse(text: &str) -> Table {
    text.parse()
        .unwrap_or_else(|error| panic!("{error}in:\n{text}"))
}

/// The value at `path`.
pub fn find<'a>(table: &'a Table, path: &str) -> Option<&'a Value> {
    match path.split_once('.') {
        Some((key, rest)) => find(table.get(key)?.as_table()?, rest),
        None => table.get(path),
    }
}

fn find_mut<'a>(table: &'a mut Table, path: &str) -> Option<&'a mut Value> {
    match path.split_once('.') {
        Some((key, rest)) => find_mut(table.get_mut(key)?.as_table_mut()?, rest),
        None => table.get_mut(path),
    }
}

/// The table at `path`, which has to be there.
#[track_caller]
pub fn expect_table<'a>(table: &'a mut Table, path: &str) -> &'a mut Table {
    let value = find_mut(table, path).unwrap_or_else(|| panic!("there is no {path}"));
    value
        .as_table_mut()
        .unwrap_or_else(|| panic!("{path} is no table"))
}

/// The tables of the list at `path`, which has to be there.
#[track_caller]
pub fn expect_tables<'a>(table: &'a mut Table, path: &str) -> impl Iterator<Item = &'a mut Table> {
    let list = find_mut(table, path).and_then(Value::as_array_mut);
    let list = list.unwrap_or_else(|| panic!("there is no list {path}"));
    let is_of_tables = list.iter().all(Value::is_table);
    assert!(is_of_tables, "{path} is no list of tables");
    list.iter_mut().filter_map(Value::as_table_mut)
}

/// Sets the value at `path` and makes the tables on the way.
#[track_caller]
pub fn set(table: &mut Table, path: &str, value: Value) {
    let mut inner = table;
    let mut keys = path.split('.');
    let last = keys.next_back().unwrap_or_default();
    let mut way = String::new();
    for key in keys {
        way = [&way, key].concat();
        let next = inner
            .entry(key)
            .or_insert_with(|| Value::Table(Table::default()));
        inner = next
            .as_table_mut()
            .unwrap_or_else(|| panic!("{way} is no table"));
        way.push('.');
    }
    inner.insert(last.to_owned(), value);
}

/// Removes the value at `path`, which has to be there.
#[track_caller]
pub fn remove(table: &mut Table, path: &str) {
    let removed = match path.rsplit_once('.') {
        Some((outer, key)) => find_mut(table, outer)
            .and_then(Value::as_table_mut)
            .and_then(|outer| outer.remove(key)),
        None => table.remove(path),
    };
    assert!(removed.is_some(), "there is no {path}");
}

/// Adds `further` to `table`: tables are merged, lists of tables continue, and any other key is new.
#[track_caller]
pub fn add(table: &mut Table, further: Table) {
    add_at(table, further, "");
}

#[track_caller]
fn add_at(table: &mut Table, further: Table, way: &str) {
    for (key, value) in further {
        let path = format!("{way}{key}");
        match (table.get_mut(&key), value) {
            (None, value) => {
                table.insert(key, value);
            }
            (Some(Value::Table(table)), Value::Table(further)) => {
                add_at(table, further, &format!("{path}."));
            }
            (Some(Value::Array(list)), Value::Array(further))
                if list.iter().chain(&further).all(Value::is_table) =>
            {
                list.extend(further);
            }
            (Some(_), _) => panic!("{path} is there already"),
        }
    }
}

/// A table of a list: the one that has this name.
#[derive(Debug, Clone, Copy)]
pub struct Element<'a> {
    /// The path of the list.
    pub list: &'a str,
    /// The key whose value is the name.
    pub key: &'a str,
    /// The name.
    pub name: &'a str,
}

impl Element<'_> {
    /// The table, when it is there.
    pub fn find(self, root: &mut Table) -> Option<&mut Table> {
        let elements = find_mut(root, self.list)?.as_array_mut()?.iter_mut();
        let mut named = elements.filter(|element| self.is(element));
        named.next().and_then(Value::as_table_mut)
    }

    /// Removes the table, which has to be there.
    #[track_caller]
    pub fn remove(self, root: &mut Table) {
        self.expect(root);
        let elements = find_mut(root, self.list).and_then(Value::as_array_mut);
        elements
            .into_iter()
            .for_each(|elements| elements.retain(|element| !self.is(element)));
    }

    fn is(self, element: &Value) -> bool {
        element.get(self.key).and_then(Value::as_str) == Some(self.name)
    }

    /// The table, which has to be there.
    #[track_caller]
    pub fn expect(self, root: &mut Table) -> &mut Table {
        let Self { list, name, .. } = self;
        self.find(root)
            .unwrap_or_else(|| panic!("{list} has no {name:?}"))
    }
}

/// Adds a table to the list at `path`.
#[track_caller]
pub fn push(table: &mut Table, path: &str, element: Table) {
    if find(table, path).is_none() {
        set(table, path, Value::Array(Vec::new()));
    }
    let list = find_mut(table, path).and_then(Value::as_array_mut);
    list.unwrap_or_else(|| panic!("{path} is no list"))
        .push(element.into());
}
