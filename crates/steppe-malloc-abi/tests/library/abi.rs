//! The contract of each exported function, checked by programs in C and C++ that use it.
//!
//! `testdata/abi.c` and `testdata/cxx.cc` have the checks, one case each; here are the names of the
//! cases, and checks that only another process can do: the symbols, the output, limits of memory.

use std::collections::BTreeSet;
use std::path::Path;
use std::process::Command;
use std::sync::OnceLock;

use crate::support::{Ended, Program, library, run, static_library};

macro_rules! cases {
    ($run:ident: $($test:ident $name:literal,)*) => {$(
        #[test]
        fn $test() {
            $run($name);
        }
    )*};
}

cases! { case:
    malloc "malloc",
    every_size "every_size",
    sizes_that_are_too_large "too_large",
    products_that_overflow "products_that_overflow",
    calloc "calloc",
    realloc "realloc",
    realloc_to_nothing "realloc_to_nothing",
    posix_memalign "posix_memalign",
    aligned_alloc "aligned_alloc",
    memalign "memalign",
    valloc_and_pvalloc "whole_pages",
    malloc_usable_size "usable_size",
    free_keeps_errno "free_keeps_errno",
    free_sized_and_free_aligned_sized "sized_frees",
    malloc_trim "trim",
    mallinfo "figures",
    mallopt "options",
    profiles "profiles",
    whose_memory_it_is "whose",
    what_the_c_library_allocates "the_c_library",
}

cases! { cxx_case:
    cxx_plain "plain",
    cxx_nothrow "nothrow",
    cxx_aligned "aligned",
    cxx_refusal "refusal",
    cxx_handler "handler",
    cxx_handler_that_makes_room "handler_frees",
}

fn case(name: &str) -> Ended {
    static PROGRAM: OnceLock<Program> = OnceLock::new();
    // The program calls functions that only the library has.
    let program = PROGRAM.get_or_init(|| Program::compile_with("abi.c", &[library()]));
    run(program.preloaded().arg(name)).succeeded()
}

fn cxx_case(name: &str) {
    static PROGRAM: OnceLock<Program> = OnceLock::new();
    let program = PROGRAM.get_or_init(|| Program::compile("cxx.cc"));
    run(program.preloaded().arg(name)).succeeded();
}

/// A program that replaces the two basic forms of `operator new`, which the other forms call.
#[test]
fn cxx_forms_of_the_program_are_met() {
    let program = Program::compile_with("cxx.cc", &["-DREPLACED", "-Wno-sized-deallocation"]);
    for name in ["plain", "nothrow", "aligned", "refusal"] {
        run(program.preloaded().arg(name)).succeeded();
    }
}

#[test]
fn cxx_new_throws_when_memory_is_limited() {
    let program = Program::compile("cxx.cc");
    let mut shell = Command::new("sh");
    shell
        .args(["-c", "ulimit -v 400000; LD_PRELOAD=$0 exec $1 exhaustion"])
        .args([library(), program.path()]);
    run(&mut shell).succeeded();
}

#[test]
fn malloc_info_is_xml_of_glibcs_shape() {
    let ended = case("info");
    let document = roxmltree::Document::parse(&ended.out).expect("it is well formed");
    let root = document.root_element();
    assert_eq!(root.tag_name().name(), "malloc");
    assert_eq!(root.attribute("version"), Some("1"));
    let size = |name: &str, kind: &str| -> u64 {
        let found = root
            .children()
            .find(|child| child.has_tag_name(name) && child.attribute("type") == Some(kind))
            .unwrap_or_else(|| panic!("no {name} {kind}: {}", ended.out));
        let size = found.attribute("size").expect("each has a size");
        size.parse().expect("a size is a number")
    };
    assert!(size("system", "current") >= 100_000, "{}", ended.out);
    assert!(size("system", "max") >= size("system", "current"));
    assert!(size("aspace", "total") >= 100_000);
    let heap = root.children().find(|child| child.has_tag_name("heap"));
    assert_eq!(heap.and_then(|heap| heap.attribute("nr")), Some("0"));
}

#[test]
fn malloc_stats_goes_to_standard_error() {
    let errors = case("stats").errors;
    for name in ["system bytes", "in use bytes", "max system bytes"] {
        let line = errors.lines().find(|line| line.starts_with(name));
        let number = line.and_then(|line| line.split('=').next_back()?.trim().parse::<u64>().ok());
        assert!(number.is_some_and(|number| number > 0), "{name}: {errors}");
    }
}

#[test]
fn figures_are_json() {
    let out = case("json").out;
    let objects: Vec<serde_json::Value> = out
        .lines()
        .map(|line| serde_json::from_str(line).unwrap_or_else(|error| panic!("{error}: {line}")))
        .collect();
    assert_eq!(objects.len(), 3, "{out}");
    for object in objects {
        assert!(object["mapped_bytes"].as_u64() > Some(0), "{object}");
        assert!(object["live_bytes"].as_u64() > Some(0), "{object}");
    }
}

#[test]
fn a_heap_profile_is_written() {
    let out = case("heap_profile").out;
    let first = out.lines().next().unwrap_or_default();
    assert!(first.starts_with("heap"), "{out}");
    assert!(out.contains("MAPPED_LIBRARIES"), "{out}");
}

/// The exports of the shared library: each promised name, and no other.
#[test]
fn only_c_names_are_exported() {
    let exported = words(
        Command::new("nm")
            .args(["-D", "--defined-only"])
            .arg(library()),
    );
    let exported: BTreeSet<&str> = exported
        .lines()
        .filter_map(|line| line.split(' ').nth(2))
        .collect();
    let promised = "
        malloc free calloc realloc reallocarray aligned_alloc posix_memalign memalign valloc pvalloc
        malloc_usable_size free_sized free_aligned_sized
        malloc_trim mallinfo mallinfo2 malloc_info malloc_stats mallopt
        steppe_malloc_version steppe_malloc_profile steppe_malloc_set_profile steppe_malloc_trim
        steppe_malloc_on_idle steppe_malloc_owns steppe_malloc_stats steppe_malloc_stats_json
        steppe_malloc_stats_json_file steppe_malloc_stats_json_fd
        steppe_malloc_heap_profile_start steppe_malloc_heap_profile_stop
        steppe_malloc_heap_profile_write
        steppe_malloc_set_limit steppe_malloc_set_soft_limit steppe_malloc_set_watermark
        unshare setns prctl dlopen";
    let promised: BTreeSet<&str> = promised.split_whitespace().collect();
    assert_eq!(exported, promised);
}

#[test]
fn it_depends_on_the_c_library_alone_and_stays_loaded() {
    let dynamic = words(Command::new("readelf").arg("-d").arg(library()));
    let needed: Vec<&str> = dynamic
        .lines()
        .filter(|line| line.contains("(NEEDED)"))
        .collect();
    assert!(
        needed.len() == 1 && needed[0].contains("[libc.so.6]"),
        "{needed:?}"
    );
    assert!(dynamic.contains("NODELETE"), "{dynamic}");
}

/// The header alone, as pedantic compilers see it.
#[test]
fn the_header_stands_alone() {
    let header = crate::support::include_directory().join("steppe_malloc.h");
    for (compiler, language) in [("cc", "c"), ("c++", "c++")] {
        let mut command = Command::new(compiler);
        command
            .args([
                "-Wall",
                "-Wextra",
                "-Werror",
                "-pedantic",
                "-fsyntax-only",
                "-x",
                language,
            ])
            .arg(&header);
        run(&mut command).succeeded();
    }
}

/// The static library, linked by C and by C++, with and without shared libraries.
#[test]
fn it_links_statically() {
    let library = static_library();
    let plain = [library.as_path()];
    let all = [library.as_path(), Path::new("-static")];
    for arguments in [plain.as_slice(), all.as_slice()] {
        let program = Program::compile_with("abi.c", arguments);
        for name in ["malloc", "realloc", "whose", "sized_frees", "the_c_library"] {
            run(Command::new(program.path()).arg(name)).succeeded();
        }
        let program = Program::compile_with("cxx.cc", arguments);
        for name in ["plain", "nothrow", "aligned", "refusal"] {
            run(Command::new(program.path()).arg(name)).succeeded();
        }
    }
}

fn words(command: &mut Command) -> String {
    run(command).succeeded().out
}
