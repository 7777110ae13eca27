//! Generates `src/layout.ts` from `layout.rs`, and checks that it and `MEMORY.md` are current.
//!
//! `UPDATE_EXPECT=1 cargo test -p steppe-audio --test layout` writes the file.
#![expect(clippy::unwrap_used, reason = "helpers of tests fail the test as well")]

use expect_test::expect_file;
use std::fmt::Write;
use steppe_audio::format::Sample;
use syn::{Attribute, Expr, Item, Lit, Meta, Visibility};

const HEAD: &str = "\
// Generated from native/src/layout.rs: `UPDATE_EXPECT=1 cargo test -p steppe-audio --test layout` writes it.
// Layout of the memory of a ring, which native/MEMORY.md specifies.

";

/// Name and value, in the order of the source.
type Table = Vec<(String, u32)>;

/// A module or enumeration of `layout.rs`, with the first line of its documentation.
struct Group {
    name: String,
    doc: String,
    table: Table,
}

fn items() -> Vec<Item> {
    syn::parse_file(include_str!("../src/layout.rs"))
        .unwrap()
        .items
}

/// The public integer constants among these items; others are computed.
fn constants(items: &[Item]) -> Table {
    let found = items.iter().filter_map(|item| {
        let Item::Const(constant) = item else {
            return None;
        };
        let Expr::Lit(literal) = &*constant.expr else {
            return None;
        };
        let Lit::Int(value) = &literal.lit else {
            return None;
        };
        let is_public = matches!(constant.vis, Visibility::Public(_));
        let name = constant.ident.to_string();
        is_public.then_some((name, value.base10_parse().unwrap()))
    });
    found.collect()
}

/// The first line of the documentation, without links.
fn doc_of(attributes: &[Attribute]) -> String {
    let lines = attributes.iter().filter_map(|attribute| {
        let Meta::NameValue(pair) = &attribute.meta else {
            return None;
        };
        match &pair.value {
            Expr::Lit(literal) if pair.path.is_ident("doc") => match &literal.lit {
                Lit::Str(line) => Some(line.value().trim().replace("[`", "`").replace("`]", "`")),
                _ => None,
            },
            _ => None,
        }
    });
    lines.into_iter().next().unwrap()
}

/// The modules of numbers, and the counters, numbered like their variants.
fn groups() -> Vec<Group> {
    let groups = items().into_iter().filter_map(|item| match item {
        Item::Mod(module) if module.ident != "tests" => Some(Group {
            name: module.ident.to_string(),
            doc: doc_of(&module.attrs),
            table: constants(&module.content?.1),
        }),
        Item::Enum(found) => Some(Group {
            name: found.ident.to_string(),
            doc: doc_of(&found.attrs),
            table: found
                .variants
                .iter()
                .map(|variant| variant.ident.to_string())
                .zip(0..)
                .collect(),
        }),
        _ => None,
    });
    groups.collect()
}

/// The group as TypeScript has it: its names, and offsets in a record as words.
fn converted(group: Group) -> Group {
    let Group { name, doc, table } = group;
    let words = |table: Table| {
        table
            .into_iter()
            .map(|(name, offset)| (name, offset / 4))
            .collect()
    };
    let (name, table) = match name.as_str() {
        "word" => ("Control".to_owned(), table),
        "record" => ("Record".to_owned(), words(table)),
        other => (
            format!("{}{}", other[..1].to_uppercase(), &other[1..]),
            table,
        ),
    };
    let doc = match name.as_str() {
        "Control" => "Words of the control block, as indices of an `Int32Array`.".to_owned(),
        "Record" => "Words of a record of the slot table. Those of 64 bits have two.".to_owned(),
        _ => doc,
    };
    Group { name, doc, table }
}

/// `SLOT_BYTES` and `SlotBytes` as `slotBytes`.
fn camel(name: &str) -> String {
    let is_upper = !name.chars().any(char::is_lowercase);
    let mut camel = String::new();
    for (index, part) in name.split('_').enumerate() {
        let (first, rest) = part.split_at(1);
        let rest = if is_upper {
            rest.to_lowercase()
        } else {
            rest.to_owned()
        };
        let first = if index == 0 {
            first.to_lowercase()
        } else {
            first.to_owned()
        };
        camel.push_str(&first);
        camel.push_str(&rest);
    }
    camel
}

fn object(group: &Group) -> String {
    let mut text = format!("\n/** {} */\nexport const {} = {{\n", group.doc, group.name);
    for (key, value) in &group.table {
        writeln!(text, "  {}: {value},", camel(key)).unwrap();
    }
    text + "} as const;\n"
}

fn samples() -> String {
    let all = [Sample::S16, Sample::F32, Sample::Mulaw];
    assert_eq!(all.map(Sample::code), [1, 2, 3]);
    let bytes = all.map(|sample| format!("{}: {}", sample.name(), sample.bytes()));
    let names = all.map(|sample| format!("'{}'", sample.name()));
    format!(
        "\n/** Bytes of a sample. */\nexport const SAMPLE_BYTES = {{ {} }} as const;\n\n\
         /** Sample formats by their number in the control block. */\n\
         export const SAMPLES = [undefined, {}] as const;\n",
        bytes.join(", "),
        names.join(", ")
    )
}

fn generated() -> String {
    let mut text = HEAD.to_owned();
    for (name, value) in constants(&items()) {
        writeln!(text, "export const {name} = {value};").unwrap();
    }
    for group in groups() {
        text += &object(&converted(group));
    }
    text + &samples()
}

/// True if a table of the document has a row that begins with this number and has this name.
fn has_row(document: &str, number: u32, name: &str) -> bool {
    let rows = document.lines().filter(|line| line.starts_with('|'));
    let mut cells = rows.map(|row| row.split('|').map(str::trim).skip(1));
    let number = number.to_string();
    cells.any(|mut cells| cells.next() == Some(number.as_str()) && cells.any(|cell| cell == name))
}

#[test]
fn layout_ts_is_current() {
    expect_file!["../../src/layout.ts"].assert_eq(&generated());
}

#[test]
fn memory_md_has_every_word_counter_and_field() {
    let document = include_str!("../MEMORY.md");
    let tables = groups().into_iter();
    let tables =
        tables.filter(|group| ["word", "Counter", "record"].contains(&group.name.as_str()));
    for (name, number) in tables.flat_map(|group| group.table) {
        let name = camel(&name);
        assert!(
            has_row(document, number, &name),
            "no row `| {number} | … {name} |`"
        );
    }
}
