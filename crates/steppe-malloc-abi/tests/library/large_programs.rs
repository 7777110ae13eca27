//! Large programs do the same with the library as without. Long tier only.
//!
//! Left out: speed. That is for the benchmarks.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use crate::support::{Ended, library, run, run_within};
use steppe_testkit::{Scratch, heavy, is_left_to_long_tier, skip};

/// The longest run of one of these programs.
const LIMIT: Duration = Duration::from_secs(1_800);

/// True if the test runs: in the long tier, if its program is installed.
fn runs(test: &str, program: &str) -> bool {
    if is_left_to_long_tier(test) {
        return false;
    }
    if Command::new(program).arg("--version").output().is_err() {
        skip(test, &format!("{program} is not installed"));
        return false;
    }
    true
}

/// Runs a command without the library, then with it, and expects the same end.
#[track_caller]
pub fn same(make: impl Fn(&Path) -> Command) -> Ended {
    let scratch = [Scratch::new("malloc-plain"), Scratch::new("malloc-library")];
    let plain = run_within(&mut make(scratch[0].path()), LIMIT);
    let mut command = make(scratch[1].path());
    let with = run_within(command.env("LD_PRELOAD", library()), LIMIT);
    assert_eq!(
        (with.code, with.signal),
        (plain.code, plain.signal),
        "{with:#?}"
    );
    assert_eq!(with.out, plain.out, "{with:#?}");
    with
}

/// The checkout that this crate is part of.
fn checkout() -> PathBuf {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    root.canonicalize().expect("the crate is in a checkout")
}

#[test]
fn node_works() {
    if !runs("node_works", "node") {
        return;
    }
    let _one = heavy();
    let ended = same(|_| {
        let mut command = Command::new("node");
        command.arg(crate::support::testdata("work.js"));
        command
    });
    let digests = ended.succeeded().out;
    assert_eq!(digests.split_whitespace().count(), 5, "{digests}");
}

/// Packs a package with npm, and installs it into another, without a network.
#[test]
fn npm_offline() {
    if !runs("npm_offline", "npm") {
        return;
    }
    let _one = heavy();
    let script = r#"set -e; mkdir -p a b; cd a
        printf '{"name":"a","version":"1.2.3","main":"i.js"}' > package.json
        echo 'module.exports = 42' > i.js
        npm pack --offline --silent; cd ../b
        printf '{"name":"b","version":"1.0.0"}' > package.json
        npm install --offline --silent --no-audit --no-fund ../a/a-1.2.3.tgz
        node -p 'require("a")'"#;
    let ended = same(|folder| {
        let mut command = Command::new("sh");
        command
            .args(["-c", script])
            .current_dir(folder)
            .env("HOME", folder);
        command
    });
    assert_eq!(ended.succeeded().out, "a-1.2.3.tgz\n42\n");
}

#[test]
fn git_on_this_checkout() {
    const NAME: &str = "git_on_this_checkout";
    if !runs(NAME, "git") {
        return;
    }
    if !checkout().join(".git").exists() {
        return skip(NAME, "the sources are no git checkout");
    }
    let _one = heavy();
    let script = r#"set -e; git -c safe.directory='*' clone --quiet --no-local "$1" c; cd c
        git log --stat --all --format='%H %s' | sha256sum
        git log -p -n 300 | sha256sum
        git blame ARCHITECTURE.md | sha256sum
        git gc --quiet --aggressive --prune=now
        git fsck --full --strict --no-progress
        git grep -c unsafe HEAD -- crates | sort
        git status --short
        git diff HEAD~20 --stat | tail -1"#;
    let root = checkout();
    // Work goes on in a checkout, maybe while this runs: both clone the same copy.
    let copy = Scratch::new("malloc-git");
    let mut clone = Command::new("git");
    clone
        .args([
            "-c",
            "safe.directory=*",
            "clone",
            "--quiet",
            "--bare",
            "--no-local",
        ])
        .arg(&root)
        .arg(copy.join("copy"));
    run_within(&mut clone, LIMIT).succeeded();
    let ended = same(|folder| {
        let mut command = Command::new("sh");
        command
            .args(["-c", script, "sh"])
            .arg(copy.join("copy"))
            .current_dir(folder)
            .env("HOME", folder);
        command
    });
    ended.succeeded();
}

#[test]
fn sqlite_works() {
    if !runs("sqlite_works", "sqlite3") {
        return;
    }
    let _one = heavy();
    let ended = same(|folder| {
        let mut command = Command::new("sqlite3");
        let script = format!(".read {}", crate::support::testdata("work.sql").display());
        command.arg(folder.join("data")).arg(script);
        command
    });
    let out = ended.succeeded().out;
    assert!(out.contains("\nok\n"), "{out}");
}

/// Compiles a program with rustc and its threads, links it, and runs it.
#[test]
fn cargo_builds() {
    if !runs("cargo_builds", env!("CARGO")) {
        return;
    }
    let _one = heavy();
    let ended = same(|folder| {
        let copy = folder.join("small");
        std::fs::create_dir_all(copy.join("src")).expect("scratch can be written");
        let manifest = "[package]\nname = \"small\"\nedition = \"2024\"\n[workspace]\n";
        std::fs::write(copy.join("Cargo.toml"), manifest).expect("scratch can be written");
        let source = crate::support::testdata("small.rs");
        std::fs::copy(source, copy.join("src/main.rs")).expect("scratch can be written");
        let mut command = Command::new(env!("CARGO"));
        command
            .args(["run", "--quiet", "--offline", "--release"])
            .current_dir(&copy)
            .env("CARGO_TARGET_DIR", folder.join("target"));
        command
    });
    assert_eq!(ended.succeeded().out, "500500 words\n");
}

/// CPython's own tests, every allocation through malloc: the result of each is the same.
#[test]
fn cpython_tests_itself() {
    const NAME: &str = "cpython_tests_itself";
    if !runs(NAME, "/usr/bin/python3") {
        return;
    }
    let mut probe = Command::new("/usr/bin/python3");
    if run(probe.args(["-c", "import test.test_dict"])).code != Some(0) {
        return skip(NAME, "the test suite of CPython is not installed");
    }
    let _one = heavy();
    let modules: Vec<&str> = CPYTHON_MODULES.split_whitespace().collect();
    assert!(modules.len() >= 100);
    let plain = cpython(&modules, None);
    let with = cpython(&modules, Some(library()));
    let ran = plain.values().filter(|result| **result == "passed").count();
    assert!(ran > 5_000, "only {ran} tests passed without the library");
    let differing: Vec<_> = plain
        .iter()
        .filter(|(test, result)| with.get(*test) != Some(result))
        .map(|(test, result)| format!("{test}: {result}, then {:?}", with.get(test)))
        .collect();
    assert!(differing.is_empty(), "{differing:#?}");
    assert_eq!(plain.len(), with.len());
}

/// Runs modules of CPython's tests; returns the result of each test.
fn cpython(modules: &[&str], library: Option<&Path>) -> BTreeMap<String, &'static str> {
    let scratch = Scratch::new("malloc-cpython");
    let report = scratch.join("report.xml");
    let mut command = Command::new("/usr/bin/python3");
    command
        // A process for each module: some load the module that writes the report anew.
        .args(["-m", "test", "-j2", "--timeout", "600", "--junit-xml"])
        .arg(&report)
        .args(modules)
        .env("PYTHONMALLOC", "malloc")
        .env("PYTHONHASHSEED", "1")
        .env("HOME", scratch.path())
        .env("TMPDIR", scratch.path())
        .current_dir(scratch.path());
    if let Some(library) = library {
        command.env("LD_PRELOAD", library);
    }
    let ended = run_within(&mut command, LIMIT);
    assert!(ended.signal.is_none(), "{ended:#?}");
    let text = std::fs::read_to_string(&report)
        .unwrap_or_else(|error| panic!("no report: {error}: {ended:#?}"));
    results(&text)
}

/// The result of each test of a report in JUnit's format.
fn results(report: &str) -> BTreeMap<String, &'static str> {
    let document = roxmltree::Document::parse(report).expect("the report is XML");
    let cases = document
        .descendants()
        .filter(|node| node.has_tag_name("testcase"));
    let result = |case: &roxmltree::Node<'_, '_>| {
        let has = |name: &str| case.children().any(|child| child.has_tag_name(name));
        if has("error") || has("failure") {
            "failed"
        } else if has("skipped") || case.attribute("result") == Some("skipped") {
            "skipped"
        } else {
            "passed"
        }
    };
    cases
        .map(|case| {
            (
                case.attribute("name").unwrap_or_default().to_owned(),
                result(&case),
            )
        })
        .collect()
}

/// Modules that need no network and no display, and finish in seconds.
const CPYTHON_MODULES: &str = "
    test_abc test_argparse test_array test_ast test_asyncgen test_augassign test_base64 test_binascii
    test_bisect test_bool test_buffer test_builtin test_bytes test_bz2 test_calendar test_call
    test_class test_cmath test_code test_codecs test_collections test_colorsys test_complex
    test_configparser test_contains test_contextlib test_copy test_coroutines test_csv test_ctypes
    test_dataclasses test_datetime test_decimal test_decorators test_deque test_descr test_dict
    test_dictviews test_difflib test_dis test_enum test_enumerate test_exceptions test_extcall
    test_filecmp test_float test_format test_fractions test_frame test_fstring test_functools test_gc
    test_generators test_genexps test_getopt test_glob test_grammar test_hash test_hashlib test_heapq
    test_hmac test_html test_htmlparser test_index test_int test_io test_ipaddress test_isinstance
    test_iter test_itertools test_json test_keyword test_list test_listcomps test_long test_lzma
    test_marshal test_math test_memoryio test_memoryview test_metaclass test_minidom test_mmap
    test_module test_named_expressions test_numeric_tower test_opcodes test_operator test_ordered_dict
    test_patma test_pickle test_pickletools test_plistlib test_pow test_pprint test_property
    test_pyexpat test_queue test_random test_range test_re test_reprlib test_richcmp test_sax test_scope
    test_set test_shelve test_shlex test_slice test_sort test_stat test_statistics
    test_strftime test_string test_struct test_subprocess test_super test_symtable test_tempfile
    test_textwrap test_thread test_threading test_threading_local test_time test_timeit test_tokenize
    test_trace test_traceback test_tuple test_types test_typing test_unicode test_unicodedata
    test_unpack test_urlparse test_userdict test_userlist test_userstring test_uuid test_weakref
    test_weakset test_with test_xml_etree test_xml_etree_c test_yield_from test_zipfile test_zlib";
