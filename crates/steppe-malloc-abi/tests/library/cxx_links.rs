//! C++ programs, with operators of their own and without, in each way to link them and the library.

use std::process::Command;

use steppe_testkit::Scratch;

use crate::install::install;
use crate::support::{Program, library, run};

const CASES: [&str; 6] = [
    "plain",
    "nothrow",
    "aligned",
    "refusal",
    "handler",
    "handler_frees",
];

/// The library that a program gets, beside further arguments of its linker.
#[derive(Clone, Copy, PartialEq)]
enum Library {
    Preloaded,
    Shared,
    Static,
}

/// Runs all cases of a program that is linked so, and of one that replaces the basic forms.
fn each_form_is_met(test: &str, kind: Library, arguments: &[&str]) {
    let scratch = Scratch::new("malloc-cxx");
    let Some(prefix) = install(test, &scratch) else {
        return;
    };
    let libraries = format!("{prefix}/lib");
    let linked = match kind {
        Library::Preloaded => Vec::new(),
        Library::Shared => vec![format!("-L{libraries}"), "-lsteppe_malloc".to_owned()],
        Library::Static => vec![format!("{libraries}/libsteppe_malloc.a")],
    };
    for replaced in ["-UREPLACED", "-DREPLACED"] {
        let mut all = vec![replaced.to_owned(), "-Wno-sized-deallocation".to_owned()];
        all.extend(linked.iter().cloned());
        all.extend(arguments.iter().map(|&argument| argument.to_owned()));
        let program = Program::compile_with("cxx.cc", &all);
        for case in CASES {
            let mut command = Command::new(program.path());
            command.arg(case).env("LD_LIBRARY_PATH", &libraries);
            if kind == Library::Preloaded {
                command.env("LD_PRELOAD", library());
            }
            let ended = run(&mut command);
            assert_eq!(ended.code, Some(0), "{replaced} {case}: {ended:#?}");
        }
    }
}

macro_rules! links {
    ($($test:ident $kind:ident [$($argument:literal)*];)*) => {$(
        #[test]
        fn $test() {
            each_form_is_met(stringify!($test), Library::$kind, &[$($argument),*]);
        }
    )*};
}

links! {
    preloaded Preloaded [];
    preloaded_beside_a_static_cxx_library Preloaded ["-static-libstdc++"];
    shared Shared [];
    shared_beside_a_static_cxx_library Shared ["-static-libstdc++"];
    linked_statically Static [];
    linked_statically_beside_a_static_cxx_library Static ["-static-libstdc++"];
    a_static_program Static ["-static"];
    a_static_program_anywhere Static ["-static-pie"];
}
