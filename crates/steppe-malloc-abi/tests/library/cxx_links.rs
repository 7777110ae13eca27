//! C++ programs, with operators of their own and without, in each way to link them and the library.

use std::ffi::OsStr;
use std::process::Command;

use crate::support::{Program, library, run, static_library};

const CASES: [&str; 6] = [
    "plain",
    "nothrow",
    "aligned",
    "refusal",
    "handler",
    "handler_frees",
];

/// The library that a program is linked with, by further arguments of its linker.
#[derive(Clone, Copy, PartialEq)]
enum Library {
    Preloaded,
    Shared,
    Static,
}

/// Runs all cases of a program that is linked with these arguments, and of one that replaces the
/// basic forms.
fn each_form_is_met(kind: Library, arguments: &[&str]) {
    let linked = match kind {
        Library::Preloaded => None,
        Library::Shared => Some(library().to_owned()),
        Library::Static => Some(static_library()),
    };
    for replaced in ["-UREPLACED", "-DREPLACED"] {
        let mut all = vec![OsStr::new(replaced), OsStr::new("-Wno-sized-deallocation")];
        all.extend(linked.iter().map(|library| library.as_os_str()));
        all.extend(arguments.iter().map(OsStr::new));
        let program = Program::compile_with("cxx.cc", &all);
        for case in CASES {
            let mut command = Command::new(program.path());
            command.arg(case);
            // A program that is linked to the shared library has to find it.
            if kind != Library::Static {
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
            each_form_is_met(Library::$kind, &[$($argument),*]);
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
