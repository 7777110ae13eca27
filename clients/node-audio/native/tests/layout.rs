//! Generates `src/layout.ts` from `layout.rs`, and checks that it and `MEMORY.md` are current.
//!
//! `UPDATE_EXPECT=1 cargo test -p steppe-audio --test layout` writes the file.
#![expect(clippy::unwrap_used, reason = "helpers of tests fail the test as well")]

use expect_test::expect_file;
use std::fmt::Write;
use steppe_audio::format::Sample;
use syn::{Expr, Item, Lit};

const HEAD: &str = "\
// Generated from native/src/layout.rs: `UPDATE_EXPECT=1 cargo test -p steppe-audio --test layout` writes it.
// Layout of the memory of a ring, which native/MEMORY.md specifies.

";

/// Constants that stand outside of modules, by their names in TypeScript too.
const SINGLE: [&str; 5] = [
    "MAGIC",
    "VERSION",
    "COUNTERS",
    "QUEUE_OFFSET",
    "RECORD_BYTES",
];

/// Name and value, in the order of the source.
type Table = Vec<(String, u32)>;

fn items() -> Vec<Item> {
    syn::parse_file(include_str!("../src/layout.rs"))
        .unwrap()
        .items
}

/// The integer constants among these items; others are computed.
fn constants(items: &[Item]) -> Table {
    let found = items.iter().filter_map(|item| match item {
        Item::Const(constant) => match &*constant.expr {
            Expr::Lit(literal) => match &literal.lit {
                Lit::Int(value) => {
                    Some((constant.ident.to_string(), value.base10_parse().unwrap()))
                }
                _ => None,
            },
            _ => None,
        },
        _ => None,
    });
    found.collect()
}

/// The constants of a module of `layout.rs`.
fn module(name: &str) -> Table {
    let found = items().into_iter().find_map(|item| match item {
        Item::Mod(module) if module.ident == name => module.content,
        _ => None,
    });
    constants(&found.unwrap().1)
}

/// The counters, whose numbers are those of their variants.
fn counters() -> Table {
    let found = items().into_iter().find_map(|item| match item {
        Item::Enum(found) if found.ident == "Counter" => Some(found.variants),
        _ => None,
    });
    let variants = found.unwrap().into_iter();
    let names = variants.map(|variant| variant.ident.to_string());
    names.zip(0..).collect()
}

/// The offsets of a record's fields, as words.
fn record() -> Table {
    let fields = module("record").into_iter();
    fields.map(|(name, offset)| (name, offset / 4)).collect()
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

fn object(doc: &str, name: &str, table: &Table) -> String {
    let mut text = format!("\n/** {doc} */\nexport const {name} = {{\n");
    for (key, value) in table {
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
    let constants = constants(&items());
    let mut text = HEAD.to_owned();
    for name in SINGLE {
        let (_, value) = constants.iter().find(|(known, _)| known == name).unwrap();
        writeln!(text, "export const {name} = {value};").unwrap();
    }
    let objects = [
        (
            "Words of the control block, as indices of an `Int32Array`.",
            "Control",
            module("word"),
        ),
        ("Values of `Control.closed`.", "Closed", module("closed")),
        (
            "64-bit counters of the producer, by index from `COUNTERS`.",
            "Counter",
            counters(),
        ),
        (
            "Words of a record of the slot table. Those of 64 bits have two.",
            "Record",
            record(),
        ),
        ("Values of `Record.state`.", "State", module("state")),
        ("Bits of `Record.flags`.", "Flag", module("flag")),
    ];
    for (doc, name, table) in objects {
        text += &object(doc, name, &table);
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
    let tables = [module("word"), counters(), module("record")];
    for (name, number) in tables.iter().flatten() {
        let name = camel(name);
        assert!(
            has_row(document, *number, &name),
            "no row `| {number} | … {name} |`"
        );
    }
}
