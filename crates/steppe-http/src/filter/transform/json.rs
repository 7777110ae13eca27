//! Edits of JSON text.
//!
//! Invariant: what no edit names goes on byte by byte, numbers of any size included; memory is that of the text that
//! comes out, and work in proportion to the text, times how deep edits reach. Spec: RFC 8259.
//!
//! Members that an edit names stand at the end of their object afterwards. Of members of one name the last
//! counts, as nearly all readers have it (RFC 8259 §4), and is the only one that remains.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::{fmt, io};

use serde::de::{Deserializer, Error, MapAccess, SeqAccess, Visitor};
use serde_json::value::RawValue;
use steppe_mem::Buffer;

use super::room::EditFault;
use crate::config::JsonEdits;
use crate::limits::JSON_ARRAYS_DEEP_MAX;

/// Edits of one object, by the names of its members.
#[derive(Debug, Clone, PartialEq, Default)]
pub(super) struct Edits(BTreeMap<String, Edit>);

/// The edit of one member.
#[derive(Debug, Clone, PartialEq)]
enum Edit {
    Remove,
    /// The member gets this name.
    Rename(String),
    /// The member gets this text as its value.
    Set(String),
    /// Members of it are edited; where one of them is set, it is made.
    Within(Edits),
}

impl Edits {
    pub(super) fn of(config: &JsonEdits) -> Self {
        let mut edits = Self::default();
        for path in &config.remove {
            edits.add(path, Edit::Remove);
        }
        for (path, name) in &config.rename {
            edits.add(path, Edit::Rename(name.clone()));
        }
        for (path, text) in &config.set {
            edits.add(path, Edit::Set(text.clone()));
        }
        edits
    }

    /// Adds an edit; none is within another: [`JsonEdits::conflict`].
    fn add(&mut self, path: &str, edit: Edit) {
        let Some((first, rest)) = path.split_once('.') else {
            self.0.insert(path.to_owned(), edit);
            return;
        };
        let within = self
            .0
            .entry(first.to_owned())
            .or_insert_with(|| Edit::Within(Self::default()));
        if let Edit::Within(edits) = within {
            edits.add(rest, edit);
        }
    }

    /// True when some member is set, however deep.
    fn sets(&self) -> bool {
        self.0.values().any(|edit| match edit {
            Edit::Set(_) => true,
            Edit::Within(edits) => edits.sets(),
            Edit::Remove | Edit::Rename(_) => false,
        })
    }

    /// Bytes that all edits set, names included.
    pub(super) fn bytes(&self) -> usize {
        const PUNCTUATION: usize = 6;
        let bytes = |(name, edit): (&String, &Edit)| {
            let value = match edit {
                Edit::Remove => 0,
                Edit::Rename(text) | Edit::Set(text) => text.len(),
                Edit::Within(edits) => edits.bytes(),
            };
            name.len() + value + PUNCTUATION
        };
        self.0.iter().map(bytes).sum()
    }

    /// Writes `text`, edited, into the room of `out`.
    pub(super) fn apply(&self, text: &[u8], out: &mut Buffer) -> Result<(), EditFault> {
        let raw: &RawValue = serde_json::from_slice(text).map_err(|_| EditFault::Invalid)?;
        let mut out = Out {
            buffer: out,
            is_full: false,
        };
        self.write(raw, &mut out, 0).map_err(|_| match out.is_full {
            true => EditFault::Full,
            false => EditFault::Invalid,
        })
    }

    /// `deep`: in how many arrays it is.
    fn write(&self, raw: &RawValue, out: &mut Out<'_>, deep: usize) -> serde_json::Result<()> {
        let text = raw.get();
        let mut reader = serde_json::Deserializer::from_str(text);
        let editing = ValueEditing {
            edits: self,
            out,
            deep,
        };
        match text.as_bytes().first() {
            Some(b'{') => reader.deserialize_map(editing),
            Some(b'[') => reader.deserialize_seq(editing),
            _ => editing.out.put(text.as_bytes()),
        }
    }

    /// Writes an object that was not there.
    fn write_new<E: Error>(&self, out: &mut Out<'_>) -> Result<(), E> {
        out.put(b"{")?;
        let mut position = ItemPosition::First;
        for (name, edit) in &self.0 {
            let is_set = match edit {
                Edit::Set(_) => true,
                Edit::Within(edits) => edits.sets(),
                Edit::Remove | Edit::Rename(_) => false,
            };
            if !is_set {
                continue;
            }
            out.name(name, &mut position)?;
            match edit {
                Edit::Set(text) => out.put(text.as_bytes())?,
                Edit::Within(edits) => edits.write_new(out)?,
                Edit::Remove | Edit::Rename(_) => {}
            }
        }
        out.put(b"}")
    }

    /// True when `name` is what a member is renamed to.
    fn is_target(&self, name: &str) -> bool {
        let mut edits = self.0.values();
        edits.any(|edit| matches!(edit, Edit::Rename(to) if to == name))
    }
}

/// The position of a member within its object, or of an item within its array.
enum ItemPosition {
    First,
    Later,
}

/// Room that text is written into.
struct Out<'b> {
    buffer: &'b mut Buffer,
    is_full: bool,
}

impl Out<'_> {
    fn put<E: Error>(&mut self, bytes: &[u8]) -> Result<(), E> {
        self.buffer.put(bytes).map_err(|full| {
            self.is_full = true;
            E::custom(full)
        })
    }

    /// The comma between two members of an object, or two items of an array.
    fn separate<E: Error>(&mut self, position: &mut ItemPosition) -> Result<(), E> {
        match std::mem::replace(position, ItemPosition::Later) {
            ItemPosition::First => Ok(()),
            ItemPosition::Later => self.put(b","),
        }
    }

    /// The name of the next member of an object.
    fn name<E: Error>(&mut self, name: &str, position: &mut ItemPosition) -> Result<(), E> {
        self.separate(position)?;
        serde_json::to_writer(&mut *self, name).map_err(E::custom)?;
        self.put(b":")
    }
}

impl io::Write for Out<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.put::<serde_json::Error>(bytes)
            .map_err(io::Error::other)?;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// A value that is read, and written edited.
struct ValueEditing<'a, 'b> {
    edits: &'a Edits,
    out: &'a mut Out<'b>,
    deep: usize,
}

impl<'de> Visitor<'de> for ValueEditing<'_, '_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object or an array")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut members: A) -> Result<(), A::Error> {
        let Self { edits, out, deep } = self;
        out.put(b"{")?;
        let mut position = ItemPosition::First;
        // What members that edits name were last.
        let mut last: BTreeMap<String, &'de RawValue> = BTreeMap::new();
        while let Some(name) = members.next_key::<Cow<'de, str>>()? {
            let value: &'de RawValue = members.next_value()?;
            if edits.0.contains_key(&*name) || edits.is_target(&name) {
                last.insert(name.into_owned(), value);
            } else {
                out.name(&name, &mut position)?;
                out.put(value.get().as_bytes())?;
            }
        }
        for (name, edit) in &edits.0 {
            let value = last.get(name).copied();
            let is_plain = value.is_none_or(|value| !value.get().starts_with(['{', '[']));
            match (edit, value) {
                (Edit::Set(text), _) => {
                    out.name(name, &mut position)?;
                    out.put(text.as_bytes())?;
                }
                (Edit::Rename(to), value) => {
                    // What had the new name gives way.
                    if let Some(value) = value.or_else(|| last.get(to).copied()) {
                        out.name(to, &mut position)?;
                        out.put(value.get().as_bytes())?;
                    }
                }
                (Edit::Within(within), _) if is_plain && within.sets() => {
                    out.name(name, &mut position)?;
                    within.write_new(out)?;
                }
                (Edit::Within(within), Some(value)) => {
                    out.name(name, &mut position)?;
                    within.write(value, out, deep).map_err(A::Error::custom)?;
                }
                (Edit::Remove, _) | (Edit::Within(_), None) => {}
            }
        }
        out.put(b"}")
    }

    /// Each item of an array is edited.
    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<(), A::Error> {
        let Self { edits, out, deep } = self;
        if deep >= JSON_ARRAYS_DEEP_MAX {
            return Err(A::Error::custom("arrays nested too deeply"));
        }
        out.put(b"[")?;
        let mut position = ItemPosition::First;
        while let Some(item) = items.next_element::<&'de RawValue>()? {
            out.separate(&mut position)?;
            edits.write(item, out, deep + 1).map_err(A::Error::custom)?;
        }
        out.put(b"]")
    }
}

#[cfg(test)]
mod tests {
    use steppe_mem::Budget;

    use super::*;
    use crate::config::{JsonEdits, Unreadable};

    fn edits() -> Edits {
        let pair = |name: &str, value: &str| (name.to_owned(), value.to_owned());
        Edits::of(&JsonEdits {
            remove: vec!["secret".to_owned(), "user.token".to_owned()],
            rename: vec![pair("old", "new"), pair("user.mail", "email")],
            set: vec![pair("source", "\"edge\""), pair("made.deep", "[1]")],
            max_bytes: 1 << 20,
            unreadable: Unreadable::Refuse,
        })
    }

    fn edited(text: &str) -> Result<String, EditFault> {
        let budget = Budget::new(16 << 20);
        let mut out = Buffer::take(&budget.root().lease(), 1 << 20).expect("room");
        edits().apply(text.as_bytes(), &mut out)?;
        Ok(String::from_utf8(out.filled().to_vec()).expect("it is text"))
    }

    #[test]
    fn members_are_set_removed_and_renamed() {
        let ends = "\"made\":{\"deep\":[1]}";
        for (text, expected) in [
            ("{}", format!("{{{ends},\"source\":\"edge\"}}")),
            (
                "{ \"a\" : 1e400, \"secret\": {\"b\":[1]}, \"z\": -0.10 }",
                format!("{{\"a\":1e400,\"z\":-0.10,{ends},\"source\":\"edge\"}}"),
            ),
            (
                "{\"old\":1,\"new\":2,\"old\":3,\"source\":1,\"source\":2}",
                format!("{{{ends},\"new\":3,\"source\":\"edge\"}}"),
            ),
            (
                "{\"new\":2,\"made\":7}",
                format!("{{{ends},\"new\":2,\"source\":\"edge\"}}"),
            ),
            (
                "{\"user\":[{\"token\":1,\"mail\":\"m\"},{\"t\":\"\\u00e9\\n\"},3]}",
                format!(
                    "{{{ends},\"source\":\"edge\",\
                     \"user\":[{{\"email\":\"m\"}},{{\"t\":\"\\u00e9\\n\"}},3]}}"
                ),
            ),
            // A name that is written in another way is the same name.
            (
                "{\"\\u0073ecret\":1}",
                format!("{{{ends},\"source\":\"edge\"}}"),
            ),
            (
                " 12345678901234567890.5 ",
                "12345678901234567890.5".to_owned(),
            ),
            ("\"text\"", "\"text\"".to_owned()),
        ] {
            assert_eq!(edited(text), Ok(expected), "{text}");
        }
    }

    #[test]
    fn what_is_no_json_is_refused_however_it_is_broken() {
        for text in [
            "",
            "{",
            "{\"a\":1}}",
            "{\"a\":01}",
            "{'a':1}",
            "[1,]",
            "{\"secret\":}",
            "nul",
            "{\"a\":\"\u{1}\"}",
            "{\"user\":{\"token\":tru}}",
        ] {
            assert_eq!(edited(text), Err(EditFault::Invalid), "{text}");
        }
        let deep = format!("{}{}", "[".repeat(100_000), "]".repeat(100_000));
        assert_eq!(edited(&deep), Err(EditFault::Invalid));
        let nested = |deep| format!("{}{{\"secret\":1}}{}", "[".repeat(deep), "]".repeat(deep));
        assert!(edited(&nested(JSON_ARRAYS_DEEP_MAX)).is_ok());
        let deeper = nested(JSON_ARRAYS_DEEP_MAX + 1);
        assert_eq!(edited(&deeper), Err(EditFault::Invalid));
        // Where no edit reaches, depth does not matter.
        let within = format!("{{\"a\":{deep}}}");
        assert!(edited(&within).is_ok());
    }
}
