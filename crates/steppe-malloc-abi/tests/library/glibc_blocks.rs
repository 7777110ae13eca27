//! Blocks of glibc's own `malloc` that a program hands to the library: glibc frees them.

use crate::support::{Program, hardened_library, preloaded_by, run};

fn goes_to_glibc(case: &str) {
    let program = Program::compile_with("glibc_blocks.c", &["-ldl"]);
    for mut command in [
        program.preloaded(),
        preloaded_by(hardened_library(), program.path()),
    ] {
        let ended = run(command.arg(case)).succeeded();
        assert_eq!(ended.errors, "");
    }
}

macro_rules! cases {
    ($($test:ident $name:literal,)*) => {$(
        #[test]
        fn $test() {
            goes_to_glibc($name);
        }
    )*};
}

cases! {
    freed "free",
    mappings_that_are_freed "mappings",
    usable_bytes "usable",
    grown_and_shrunk "grown",
    in_arenas_of_threads "threads",
    in_arenas_of_several_heaps "heaps",
}
