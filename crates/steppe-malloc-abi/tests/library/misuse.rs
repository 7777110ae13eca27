//! Misuse by a program: the hardened build ends it with a message, and the usual one limits the
//! harm to the thread that made the mistake.

use std::sync::OnceLock;

use crate::support::{Ended, Program, hardened_library, preloaded_by, rounds, run};

fn program() -> &'static Program {
    static COMPILED: OnceLock<Program> = OnceLock::new();
    COMPILED.get_or_init(|| Program::compile("misuse.c"))
}

fn hardened(case: &str) -> Ended {
    run(preloaded_by(hardened_library(), program().path()).arg(case))
}

/// The message names a pointer that the program announced, and the class of its block.
#[track_caller]
fn ends_with_a_message(case: &str) {
    let ended = hardened(case).aborted();
    let pointers: Vec<&str> = ended.out.lines().collect();
    assert!(
        pointers.iter().all(|pointer| pointer.starts_with("0x")),
        "{ended:#?}"
    );
    let names_it = |line: &str| {
        let mut words = line.split([' ', ',', ':']);
        line.starts_with("steppe-malloc: ") && words.any(|word| pointers.contains(&word))
    };
    let message = ended.errors.lines().find(|line| names_it(line));
    let message = message.unwrap_or_else(|| panic!("{case}: no message: {ended:#?}"));
    assert!(message.contains("class "), "{case}: {message}");
}

macro_rules! mistakes {
    ($($test:ident)*) => {$(
        #[test]
        fn $test() {
            ends_with_a_message(stringify!($test));
        }
    )*};
}

mistakes! {
    double_free double_free_medium freed_large freed_huge
    middle middle_odd middle_medium middle_large
    stack global realloc_freed
    overrun_into_free overrun_into_live overrun_by_one write_after_free
}

/// A program without mistakes gets no message, in any size and from several threads.
#[test]
fn no_mistake_is_none() {
    let program = Program::compile("refusals.c");
    let ended = run(preloaded_by(hardened_library(), program.path()).arg("threads")).succeeded();
    assert_eq!((ended.out.as_str(), ended.errors.as_str()), ("done\n", ""));
    let program = Program::compile_with("abi.c", &[crate::support::library()]);
    for case in [
        "malloc",
        "calloc",
        "realloc",
        "posix_memalign",
        "usable_size",
        "trim",
    ] {
        run(preloaded_by(hardened_library(), program.path()).arg(case)).succeeded();
    }
}

#[test]
fn a_double_free_leaves_another_thread_alone() {
    for _ in 0..rounds(100, 1_000) {
        run(program().preloaded().arg("canaries")).succeeded();
    }
}

/// The usual build reports a pointer that was never its own, and goes on.
#[test]
fn a_foreign_pointer_is_told_and_survived() {
    let ended = run(program().preloaded().arg("foreign")).succeeded();
    for pointer in ended.out.lines() {
        assert!(ended.errors.contains(pointer), "{ended:#?}");
    }
}
