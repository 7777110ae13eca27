//! Configurations of several files, and values out of the environment and of files.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::io;
use std::path::{Path, PathBuf};

use expect_test::{Expect, expect};
use steppe_config::effective::{effective, settings};
use steppe_config::form::{ANY, FILE, NAME};
use steppe_config::include::INCLUDE;
use steppe_config::key::{
    Key, OptionalKey, PlaceKey, boolean, integer, key, list, map, place, size, text,
};
use steppe_config::limits::{FILE_BYTES_MAX, INCLUDED_FILES_MAX};
use steppe_config::mistakes::Mistakes;
use steppe_config::outside::Outside;
use steppe_config::read::Source;
use steppe_config::report::{Drawing, Report};
use steppe_config::table::{Absent, Kind, Needs, Table};
use steppe_config::typed::Fields;

static ROOT: Table = Table {
    name: "",
    doc: "A file of tests.",
    keys: &[
        &INCLUDES.spec,
        &PORT.spec,
        &IS_ON.spec,
        &BYTES.spec,
        &WORDS.spec,
        &TOKEN.spec,
        &PATHS.spec,
        &SERVERS.spec,
        &RULES.spec,
    ],
    needs: Needs::Nothing,
};

static INCLUDES: PlaceKey = place(INCLUDE, Kind::List(&Kind::Text(&ANY), 0), "Files.");
static PORT: Key<u16> = key("port", integer(1, 65_535), "A port.").or(Absent::Number(80));
static IS_ON: OptionalKey<bool> = key("is_on", boolean(), "A flag.");
static BYTES: OptionalKey<usize> = key("bytes", size(1, 1 << 20), "A size.");
static WORDS: OptionalKey<Vec<String>> = key("words", list(&text(&ANY), 0), "Words.");
static TOKEN: OptionalKey<String> = key("token", text(&NAME), "A secret.").secret();
static PATHS: OptionalKey<Vec<PathBuf>> = key("paths", list(&text(&FILE), 0), "Files.");
static SERVERS: PlaceKey = place(
    "server",
    Kind::Map(&NAME, &Kind::Table(&SERVER)),
    "Servers by name.",
)
.or(Absent::Table);
static SERVER: Table = Table {
    name: "server",
    doc: "A server.",
    keys: &[&ADDRESS.spec, &FIELDS.spec],
    needs: Needs::Nothing,
};
static ADDRESS: OptionalKey<String> = key("address", text(&NAME), "An address.");
static FIELDS: OptionalKey<Vec<(String, String)>> =
    key("fields", map(&NAME, &text(&ANY)), "Fields.");
static RULES: PlaceKey = place(
    "rule",
    Kind::List(&Kind::Table(&RULE), 0),
    "Rules in order.",
)
.or(Absent::Texts(&[]));
static RULE: Table = Table {
    name: "rule",
    doc: "A rule.",
    keys: &[&RULE_NAME.spec],
    needs: Needs::Nothing,
};
static RULE_NAME: Key<String> = key("name", text(&NAME), "A name.").required();

/// Files and variables of a test; a path that ends with `!` is a link to the path before it.
#[derive(Default)]
struct World {
    files: BTreeMap<PathBuf, String>,
    variables: BTreeMap<&'static str, &'static str>,
}

impl World {
    fn of(files: &[(&str, &str)]) -> Self {
        let files = files.iter();
        Self {
            files: files
                .map(|(path, text)| (PathBuf::from(path), (*text).to_owned()))
                .collect(),
            variables: BTreeMap::new(),
        }
    }

    fn with(mut self, name: &'static str, value: &'static str) -> Self {
        self.variables.insert(name, value);
        self
    }

    /// Reads `main.toml` in the folder `etc`.
    fn read(&mut self) -> (Option<(Fields, Source<'_>)>, Report) {
        let text = self.files[Path::new("etc/main.toml")].clone();
        let text: &'static str = Box::leak(text.into_boxed_str());
        let mut mistakes = Mistakes::default();
        let Some(mut source) = Source::parse("etc/main.toml", text, &mut mistakes) else {
            return (None, Report::new("etc/main.toml", text, mistakes));
        };
        source.complete(self, &mut mistakes);
        let fields = source.read(&ROOT, &mut mistakes);
        let report = Report::of(&source.files, mistakes);
        (Some((fields, source)), report)
    }

    /// The settings of a configuration without mistakes.
    fn effective(&mut self) -> String {
        let (read, report) = self.read();
        assert_eq!(report.render(Drawing::Plain), "");
        effective(&read.expect("it was read").0).to_string()
    }

    fn refused(&mut self, expected: Expect) {
        let (_, report) = self.read();
        assert!(report.errors() > 0, "nothing is refused");
        expected.assert_eq(&report.render(Drawing::Plain));
    }
}

/// The options of a pattern for paths: a pattern character matches no `/`.
const WHOLE: glob::MatchOptions = glob::MatchOptions {
    case_sensitive: true,
    require_literal_separator: true,
    require_literal_leading_dot: false,
};

impl Outside for World {
    fn read(&mut self, path: &Path, bytes_max: usize) -> io::Result<Vec<u8>> {
        let text = self.files.get(path).ok_or(io::ErrorKind::NotFound)?;
        Ok(text.bytes().take(bytes_max + 1).collect())
    }

    fn matches(&mut self, pattern: &str, paths_max: usize) -> Result<Vec<PathBuf>, String> {
        let pattern = glob::Pattern::new(pattern).map_err(|error| error.msg.to_owned())?;
        let paths = self.files.keys();
        let paths = paths.filter(|path| pattern.matches_path_with(path, WHOLE));
        Ok(paths.take(paths_max + 1).cloned().collect())
    }

    fn canonical(&mut self, path: &Path) -> io::Result<PathBuf> {
        let path = path.to_string_lossy();
        let path = PathBuf::from(path.trim_end_matches('!').replace("/./", "/"));
        match self.files.contains_key(&path) {
            true => Ok(path),
            false => Err(io::ErrorKind::NotFound.into()),
        }
    }

    fn variable(&mut self, name: &str) -> Option<OsString> {
        self.variables.get(name).map(OsString::from)
    }
}

#[test]
fn files_are_read_as_one_in_byte_order() {
    let mut world = World::of(&[
        (
            "etc/main.toml",
            "include = ['sites/*.toml', 'last.json']\nport = 81\n[[rule]]\nname = 'first'\n\
             [server.a]\naddress = 'a:1'\n",
        ),
        (
            "etc/sites/b.toml",
            "[[rule]]\nname = 'b'\n[server.b]\naddress = 'b:1'\n",
        ),
        (
            "etc/sites/B.toml",
            "include = ['more/c.toml']\n[[rule]]\nname = 'B'\n",
        ),
        (
            "etc/sites/more/c.toml",
            "paths = ['x', '/y']\n[[rule]]\nname = 'c'\n",
        ),
        ("etc/last.json", r#"{ "rule": [{ "name": "last" }] }"#),
    ]);
    expect![[r#"{"port":81,"paths":["etc/sites/more/x","/y"],"server":{"a":{"address":"a:1"},"b":{"address":"b:1"}},"rule":[{"name":"first"},{"name":"B"},{"name":"c"},{"name":"b"},{"name":"last"}]}"#]].assert_eq(&world.effective());
}

#[test]
fn a_setting_says_its_file_and_line() {
    let mut world = World::of(&[
        (
            "etc/main.toml",
            "include = ['b.toml']\n[server.a]\naddress = 'a:1'\n",
        ),
        (
            "etc/b.toml",
            "words = ['${env:WORD}']\n[server.'b c']\naddress = 'b:1'\nfields = { token = 'x' }\n",
        ),
    ])
    .with("WORD", "w");
    let (read, report) = world.read();
    assert_eq!(report.render(Drawing::Plain), "");
    let (fields, source) = read.expect("it was read");
    let lines = settings(&fields).into_iter().map(|setting| {
        let place = setting.place.map(|span| source.files.place(span.start));
        let place = place.map_or("default".to_owned(), |place| place.to_string());
        format!("{} = {} {place}", setting.key, setting.value)
    });
    expect![[r#"
        port = 80 default
        words = ["${env:WORD}"] etc/b.toml:1
        server.a.address = "a:1" etc/main.toml:3
        server."b c".address = "b:1" etc/b.toml:3
        server."b c".fields.token = "x" etc/b.toml:4
        rule = [] default"#]]
    .assert_eq(&lines.collect::<Vec<_>>().join("\n"));
}

#[test]
fn values_take_the_place_of_placeholders_and_are_not_shown() {
    let mut world = World::of(&[
        (
            "etc/main.toml",
            "port = '${env:PORT}'\nis_on = '${env:ON:-true}'\nbytes = '${env:SIZE:-4}KiB'\n\
             token = '${file:token}'\nwords = ['${id} $1 $', '$${env:PORT}', 'a${env:EMPTY:-b}c', '${env:EMPTY}']\n",
        ),
        ("etc/token", "s3cret\n"),
    ])
    .with("PORT", "8080")
    .with("EMPTY", "");
    let (read, report) = world.read();
    assert_eq!(report.render(Drawing::Plain), "");
    let (fields, _) = read.expect("it was read");
    assert_eq!(fields.get(&PORT), Some(8080));
    assert_eq!(fields.get(&IS_ON), Some(Some(true)));
    assert_eq!(fields.get(&BYTES), Some(Some(4096)));
    assert_eq!(fields.get(&TOKEN), Some(Some("s3cret".to_owned())));
    let words = fields.get(&WORDS).flatten().expect("they are valid");
    assert_eq!(words, ["${id} $1 $", "${env:PORT}", "abc", ""]);
    expect![[r#"{"port":"${env:PORT}","is_on":"${env:ON:-true}","bytes":"${env:SIZE:-4}KiB","words":["${id} $1 $","$${env:PORT}","a${env:EMPTY:-b}c","${env:EMPTY}"],"token":"${file:token}","server":{},"rule":[]}"#]]
    .assert_eq(&effective(&fields).to_string());
}

#[test]
fn mistakes_of_placeholders_name_their_lines_and_no_value() {
    let mut world = World::of(&[
        (
            "etc/main.toml",
            "port = '${env:PORT}'\nis_on = '${env:UNSET}'\nbytes = '${env:1X}'\ntoken = '${file:none}'\n\
             words = ['${env:PORT', '${file:}', '${env:A B}']\n[server.a]\naddress = '${file:long}'\n",
        ),
        ("etc/long", &"s3cret".repeat(40)),
    ])
    .with("PORT", "hunter22");
    world.refused(expect![[r#"
          × `port` takes an integer from 1 to 65535
           ╭─[etc/main.toml:1:8]
         1 │ port = '${env:PORT}'
           ·        ──────┬──────
           ·              ╰── ${env:PORT} stands for another value
         2 │ is_on = '${env:UNSET}'
           ╰────
          help: it takes values from 1 to 65535

          × the environment variable `UNSET` is not set
           ╭─[etc/main.toml:2:9]
         1 │ port = '${env:PORT}'
         2 │ is_on = '${env:UNSET}'
           ·         ───────┬──────
           ·                ╰── not set
         3 │ bytes = '${env:1X}'
           ╰────
          help: set it, or write a default: "${env:UNSET:-default}"

          × `1X` is no name of an environment variable
           ╭─[etc/main.toml:3:9]
         2 │ is_on = '${env:UNSET}'
         3 │ bytes = '${env:1X}'
           ·         ─────┬─────
           ·              ╰── in this placeholder
         4 │ token = '${file:none}'
           ╰────
          help: write "${env:NAME}" or "${env:NAME:-default}"

          × can't read `etc/none`: entity not found
           ╭─[etc/main.toml:4:9]
         3 │ bytes = '${env:1X}'
         4 │ token = '${file:none}'
           ·         ───────┬──────
           ·                ╰── named here
         5 │ words = ['${env:PORT', '${file:}', '${env:A B}']
           ╰────

          × `${env:` has no `}`
           ╭─[etc/main.toml:5:10]
         4 │ token = '${file:none}'
         5 │ words = ['${env:PORT', '${file:}', '${env:A B}']
           ·          ──────┬─────
           ·                ╰── a placeholder without an end
         6 │ [server.a]
           ╰────
          help: write "${env:…}"; for the text itself, `$$`

          × `${file:}` has no path
           ╭─[etc/main.toml:5:24]
         4 │ token = '${file:none}'
         5 │ words = ['${env:PORT', '${file:}', '${env:A B}']
           ·                        ─────┬────
           ·                             ╰── no file
         6 │ [server.a]
           ╰────
          help: write "${file:PATH}"

          × `A B` is no name of an environment variable
           ╭─[etc/main.toml:5:36]
         4 │ token = '${file:none}'
         5 │ words = ['${env:PORT', '${file:}', '${env:A B}']
           ·                                    ──────┬─────
           ·                                          ╰── in this placeholder
         6 │ [server.a]
           ╰────
          help: write "${env:NAME}" or "${env:NAME:-default}"

          × `address` takes a name
           ╭─[etc/main.toml:7:11]
         6 │ [server.a]
         7 │ address = '${file:long}'
           ·           ───────┬──────
           ·                  ╰── ${file:long} stands for another value
           ╰────

        etc/main.toml: 8 errors
    "#]]);
}

#[test]
fn mistakes_of_included_files_name_their_own_lines() {
    World::of(&[
        (
            "etc/main.toml",
            "include = ['a.toml', 'none.toml']\nport = 1\n[server.a]\naddress = 'a:1'\n",
        ),
        (
            "etc/a.toml",
            "port = 2\nprt = 3\n[[rule]]\nnme = 'x'\n[server.a]\naddress = 'a:2'\n",
        ),
    ])
    .refused(expect![[r#"
          × can't read `etc/none.toml`: entity not found
           ╭─[etc/main.toml:1:22]
         1 │ include = ['a.toml', 'none.toml']
           ·                      ─────┬─────
           ·                           ╰── included here
         2 │ port = 1
           ╰────

          × `port` is given twice
           ╭─[etc/a.toml:1:1]
         1 │ port = 2
           · ──┬─
           ·   ╰── again here
         2 │ prt = 3
           ╰────
          help: first here: etc/main.toml:2

          × a configuration has no key `prt`
           ╭─[etc/a.toml:2:1]
         1 │ port = 2
         2 │ prt = 3
           · ─┬─
           ·  ╰── unknown key
         3 │ [[rule]]
           ╰────
          help: did you mean `port`?

          × `rule` has no key `nme`
           ╭─[etc/a.toml:4:1]
         3 │ [[rule]]
         4 │ nme = 'x'
           · ─┬─
           ·  ╰── unknown key
         5 │ [server.a]
           ╰────
          help: did you mean `name`?

          × `server.a` is given twice
           ╭─[etc/a.toml:5:9]
         4 │ nme = 'x'
         5 │ [server.a]
           ·         ┬
           ·         ╰── again here
         6 │ address = 'a:2'
           ╰────
          help: first here: etc/main.toml:3

        etc/main.toml: 5 errors
    "#]]);
}

/// A key that seems to be missing may be in the broken file.
#[test]
fn a_broken_included_file_is_told_alone() {
    World::of(&[
        ("etc/main.toml", "include = ['a.toml']\n[[rule]]\n"),
        ("etc/a.toml", "port = \n"),
    ])
    .refused(expect![[r#"
          × invalid TOML: string values must be quoted
           ╭─[etc/a.toml:1:8]
         1 │ port = 
           ·        ▲
           ·        ╰── expected literal string
           ╰────

        etc/main.toml: 1 error
    "#]]);
}

#[test]
fn files_that_include_each_other_are_refused() {
    World::of(&[
        ("etc/main.toml", "include = ['a.toml', '*.toml']\n"),
        ("etc/a.toml", "include = ['./main.toml', 'b.toml']\n"),
        ("etc/b.toml", "include = ['b.toml!', 'a.toml']\n"),
    ])
    .refused(expect![[r#"
          × `etc/a.toml` is included twice
           ╭─[etc/main.toml:1:22]
         1 │ include = ['a.toml', '*.toml']
           ·            ────┬───  ────┬───
           ·                │         ╰── again here
           ·                ╰── first here
           ╰────

          × `etc/b.toml` is included twice
           ╭─[etc/main.toml:1:22]
         1 │ include = ['a.toml', '*.toml']
           ·                      ────┬───
           ·                          ╰── again here
           ╰────
          help: first here: etc/a.toml:1

          × `etc/main.toml` includes itself
           ╭─[etc/main.toml:1:22]
         1 │ include = ['a.toml', '*.toml']
           ·                      ────┬───
           ·                          ╰── again here
           ╰────

          × `etc/./main.toml` includes itself by way of other files
           ╭─[etc/a.toml:1:12]
         1 │ include = ['./main.toml', 'b.toml']
           ·            ──────┬──────
           ·                  ╰── again here
           ╰────

          × `etc/b.toml!` includes itself
           ╭─[etc/b.toml:1:12]
         1 │ include = ['b.toml!', 'a.toml']
           ·            ────┬────
           ·                ╰── again here
           ╰────

          × `etc/a.toml` includes itself by way of other files
           ╭─[etc/b.toml:1:23]
         1 │ include = ['b.toml!', 'a.toml']
           ·                       ────┬───
           ·                           ╰── again here
           ╰────

        etc/main.toml: 6 errors
    "#]]);
}

#[test]
fn depth_number_and_size_are_bounded() {
    let chain = |number: usize| format!("include = ['{}.toml']\n", number + 1);
    let mut world = World::of(&[("etc/main.toml", &chain(0))]);
    for number in 1..=5 {
        let path = PathBuf::from(format!("etc/{number}.toml"));
        world.files.insert(path, chain(number));
    }
    world.refused(expect![[r#"
          × files are included deeper than 4 levels
           ╭─[etc/4.toml:1:12]
         1 │ include = ['5.toml']
           ·            ────┬───
           ·                ╰── too deep
           ╰────

        etc/main.toml: 1 error
    "#]]);
    let mut world = World::of(&[("etc/main.toml", "include = ['many/*.toml']\n")]);
    for number in 0..=INCLUDED_FILES_MAX {
        let path = PathBuf::from(format!("etc/many/{number}.toml"));
        world.files.insert(path, String::new());
    }
    world.refused(expect![[r#"
          × `many/*.toml` matches more than 1024 files
           ╭─[etc/main.toml:1:12]
         1 │ include = ['many/*.toml']
           ·            ──────┬──────
           ·                  ╰── this pattern
           ╰────

        etc/main.toml: 1 error
    "#]]);
    let long = "#".repeat(FILE_BYTES_MAX);
    World::of(&[
        ("etc/main.toml", "include = ['a.toml']\n"),
        ("etc/a.toml", &long),
    ])
    .refused(expect![[r#"
          × all files together are longer than 1048576 bytes
           ╭─[etc/main.toml:1:12]
         1 │ include = ['a.toml']
           ·            ────┬───
           ·                ╰── with `etc/a.toml`
           ╰────

        etc/main.toml: 1 error
    "#]]);
    // Many placeholders of one file take no more than the files.
    let words = ["'${file:large}'"; 17].join(", ");
    World::of(&[
        ("etc/main.toml", &format!("words = [{words}]\n")),
        ("etc/large", &"x".repeat(64 << 10)),
    ])
    .refused(expect![[r#"
          × placeholders stand for more than 1048576 bytes
           ╭─[etc/main.toml:1:282]
         1 │ words = ['${file:large}', '${file:large}', '${file:large}', '${file:large}', '${file:large}', '${file:large}', '${file:large}', '${file:large}', '${file:large}', '${file:large}', '${file:large}', '${file:large}', '${file:large}', '${file:large}', '${file:large}', '${file:large}', '${file:large}']
           ·                                                                                                                                                                                                                                                                                          ───────┬───────
           ·                                                                                                                                                                                                                                                                                                 ╰── this one is too many
           ╰────

        etc/main.toml: 1 error
    "#]]);
}

#[test]
fn include_takes_a_list_of_paths() {
    for include in ["'a.toml'", "[1]", "3", "['']", "['[']"] {
        let mut world = World::of(&[("etc/main.toml", &format!("include = {include}\n"))]);
        let (_, report) = world.read();
        assert_eq!(report.errors(), 1, "{include}: {report}");
    }
}
