//! Keys as constants: values, defaults, refusals and display.

use std::path::Path;
use std::time::Duration;

use steppe_config::choice::Choices;
use steppe_config::effective::effective;
use steppe_config::form::{ANY, Form, Read, Refusal};
use steppe_config::key::{
    Key, OptionalKey, PlaceKey, boolean, choice, duration, integer, key, list, place, set, size,
    text,
};
use steppe_config::mistakes::Mistakes;
use steppe_config::read::read;
use steppe_config::report::{Drawing, Report};
use steppe_config::schema::schema;
use steppe_config::table::{Absent, Kind, Needs, Table};
use steppe_config::taken;
use steppe_config::typed::{Fields, Typed};

static ROOT: Table = Table {
    name: "",
    doc: "A file of tests.",
    keys: &[
        &BYTES.spec,
        &WAIT.spec,
        &COLOR.spec,
        &DAYS.spec,
        &POINTS.spec,
        &TOKEN.spec,
        &PARTS.spec,
    ],
    needs: Needs::Nothing,
};

static BYTES: Key<usize> = key("bytes", size(1, 1 << 20), "A size.").or(Absent::Text("64KiB"));
static WAIT: OptionalKey<Duration> = key(
    "wait",
    duration(Duration::ZERO, Duration::from_secs(60)),
    "A time.",
);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Color {
    Red,
    Green,
}

static COLOR: Key<Color> = key(
    "color",
    choice(&Choices::of(&[("red", Color::Red), ("green", Color::Green)]).and_later(&["blue"])),
    "A choice.",
)
.or(Absent::Text("red"));

static DAYS: Key<Vec<u8>> = key(
    "days",
    set(&choice(&Choices::of(&[
        ("mon", 1_u8),
        ("tue", 2),
        ("wed", 3),
    ]))),
    "A set.",
)
.or(Absent::Texts(&["mon"]));

/// Two numbers with a comma between them.
static POINT: Form<(i32, i32)> = Form::new("a point such as \"1,2\"", point);

fn point(text: &str, _: &Path) -> Read<(i32, i32)> {
    let parts = text
        .split_once(',')
        .and_then(|(x, y)| Some((x.parse().ok()?, y.parse().ok()?)));
    parts.ok_or_else(|| Refusal::new("not a point").help("write two numbers"))
}

static POINTS: OptionalKey<Vec<(i32, i32)>> = key("points", list(&text(&POINT), 1), "Points.");
static TOKEN: OptionalKey<String> = key("token", text(&ANY), "A secret.").secret();
static PARTS: PlaceKey =
    place("part", Kind::List(&Kind::Table(&PART), 0), PART.doc).or(Absent::Texts(&[]));

static PART: Table = Table {
    name: "part",
    doc: "A part.",
    keys: &[&COUNT.spec, &IS_ON.spec],
    needs: Needs::Nothing,
};

static COUNT: Key<u16> = key("count", integer(1, 9), "A number.").required();
static IS_ON: Key<bool> = key("on", boolean(), "A switch.").or(Absent::Yes);

fn fields(text: &str) -> Fields {
    let mut mistakes = Mistakes::default();
    let (_, fields) = read(("a.toml", text), &ROOT, &mut mistakes).expect("valid syntax");
    assert_eq!(mistakes.finish().0, []);
    fields
}

fn refused(text: &str) -> String {
    let mut mistakes = Mistakes::default();
    _ = read(("a.toml", text), &ROOT, &mut mistakes);
    Report::new("a.toml", text, mistakes).render(Drawing::Plain)
}

#[test]
fn keys_that_are_absent_have_their_defaults() {
    let fields = fields("");
    assert_eq!(fields.get(&BYTES), Some(64 << 10));
    assert_eq!(fields.get(&WAIT), Some(None));
    assert_eq!(fields.get(&COLOR), Some(Color::Red));
    assert_eq!(fields.get(&DAYS), Some(vec![1]));
    assert!(fields.items(&PARTS).is_empty());
    assert_eq!(fields.place_of(&BYTES), None);
}

#[test]
fn keys_that_are_given_are_of_their_types() {
    let fields = fields(
        "bytes = \"1KiB\"\nwait = \"2s\"\ncolor = \"green\"\ndays = [\"wed\", \"mon\", \"wed\"]\npoints = [\"1,2\"]\n\
         [[part]]\ncount = 3\n",
    );
    assert_eq!(fields.get(&BYTES), Some(1024));
    assert_eq!(fields.get(&WAIT), Some(Some(Duration::from_secs(2))));
    assert_eq!(fields.get(&COLOR), Some(Color::Green));
    assert_eq!(
        fields.get(&DAYS),
        Some(vec![1, 3]),
        "in the order of the choices, each once"
    );
    assert_eq!(fields.get(&POINTS), Some(Some(vec![(1, 2)])));
    let [part] = fields.items(&PARTS) else {
        panic!("one part");
    };
    let part = part.fields().expect("a table");
    assert_eq!((part.get(&COUNT), part.get(&IS_ON)), (Some(3), Some(true)));
    assert_eq!(fields.place_of(&BYTES).map(|place| place.start), Some(0));
}

#[test]
fn values_that_are_refused_are_invalid_and_named() {
    let text = "color = \"blue\"\nbytes = \"2MiB\"\npoints = [\"1\"]\n[[part]]\non = 1\n";
    let drawn = refused(text);
    for part in [
        "\"blue\" in `color` is not supported yet",
        "`bytes` is out of range",
        "it takes values from 1B to 1MiB",
        "not a point",
        "write two numbers",
        "`part` lacks the key `count`",
        "`on` takes `true` or `false`",
        "5 errors",
    ] {
        assert!(drawn.contains(part), "{part}:\n{drawn}");
    }
    let mut mistakes = Mistakes::default();
    let (_, fields) = read(("a.toml", text), &ROOT, &mut mistakes).expect("valid syntax");
    assert_eq!(
        fields.get(&BYTES),
        None,
        "the default does not stand for an invalid value"
    );
    assert_eq!(fields.get(&COLOR), None);
    assert_eq!(fields.get(&POINTS), None);
    let unknown = refused("colour = \"red\"\n");
    assert!(unknown.contains("did you mean `color`?"), "{unknown}");
}

#[test]
fn values_are_shown_as_they_were_written_and_secrets_masked() {
    let shown = effective(&fields("points = [\"1,+2\"]\ntoken = \"s3cret\"\n"));
    assert_eq!(shown["points"][0], "1,+2");
    assert_eq!(shown["token"], "***");
    assert_eq!(shown["bytes"], "64KiB");
    assert_eq!(shown["color"], "red");
}

#[test]
fn the_schema_names_choices_that_are_supported() {
    let schema = schema("Test", &ROOT);
    let colors = schema["properties"]["color"]["anyOf"][0]["enum"]
        .as_array()
        .expect("names");
    assert_eq!(colors.len(), 2, "{colors:?}");
    assert_eq!(schema["properties"]["bytes"]["default"], "64KiB");
}

#[test]
fn reads_are_recorded_while_they_are_asked_for_alone() {
    let fields = fields("bytes = \"1KiB\"\n");
    _ = fields.get(&WAIT);
    let taken = taken::during(|| _ = fields.get(&BYTES));
    assert_eq!(taken.into_iter().collect::<Vec<_>>(), [".bytes"]);
}

#[test]
fn a_value_of_another_type_is_not_read() {
    let fields = fields("bytes = \"1KiB\"\n");
    let node = fields.value(&BYTES.spec).expect("given");
    assert!(matches!(node.typed, Typed::Size(1024)));
    assert_eq!(node.typed.value::<String>(), None);
}
