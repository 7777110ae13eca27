//! The library inside of programs that did not expect it: forks under load, threads that end, dlopen,
//! another allocator, a real server.

use std::path::Path;
use std::process::Command;

use crate::support::server::Nginx;
use crate::support::{Program, is_long, library, preloaded, rounds, run};
use steppe_testkit::{Wrk, skip};

#[test]
fn fork_under_load() {
    let program = Program::compile("fork.c");
    let forks = rounds(100, 1_000).to_string();
    run(program.preloaded().arg(forks)).succeeded();
}

#[test]
fn threads_free_while_they_end() {
    let program = Program::compile("thread_exit.cc");
    let threads = rounds(2_000, 20_000).to_string();
    run(program.preloaded().arg(threads)).succeeded();
}

#[test]
fn opened_while_the_program_runs() {
    let program = Program::compile_with("dlopen.c", &["-ldl"]);
    for scope in ["local", "global"] {
        run(Command::new(program.path()).arg(library()).arg(scope)).succeeded();
    }
}

#[test]
fn preloaded_and_opened() {
    let program = Program::compile_with("dlopen.c", &["-ldl"]);
    // The same library twice is one library: no difference can be seen, and the program prints that.
    let ended = run(program.preloaded().arg(library()).arg("local"));
    assert_eq!(ended.code, Some(1), "{ended:#?}");
    assert!(
        ended.errors.contains("their_malloc != malloc"),
        "{ended:#?}"
    );
}

#[test]
fn a_program_with_another_allocator() {
    const NAME: &str = "a_program_with_another_allocator";
    if !Path::new("/usr/include/jemalloc/jemalloc.h").exists() {
        return skip(NAME, "jemalloc's header is not installed");
    }
    let shared = Program::compile_with("other_allocator.c", &["-ljemalloc"]);
    assert_eq!(run(&mut shared.preloaded()).succeeded().errors, "");
    // Inside of the program, jemalloc's malloc stands before any preloaded one.
    let linked = ["-l:libjemalloc.a", "-lm", "-lstdc++", "-ldl"];
    let inside = Program::compile_with("other_allocator.c", &linked);
    assert_eq!(run(&mut inside.preloaded()).succeeded().errors, "");
}

#[test]
fn a_program_with_a_malloc_of_its_own() {
    let program = Program::compile("own_malloc.cc");
    assert_eq!(run(&mut program.preloaded()).succeeded().errors, "");
}

/// Small programs of every kind: a shell with a pipe, an interpreter, a compiler.
#[test]
fn everyday_programs() {
    let lines = run(preloaded("sh").args(["-c", "ls / | sort | wc -l"])).succeeded();
    assert!(lines.out.trim().parse::<u32>().is_ok_and(|count| count > 5));
    let scratch = steppe_testkit::Scratch::new("malloc-cc");
    let source = scratch.write(
        "a.c",
        "#include <stdio.h>\nint main(void) { return puts(\"x\") < 0; }\n",
    );
    let program = scratch.join("a");
    run(preloaded("cc").arg("-o").arg(&program).arg(source)).succeeded();
    assert_eq!(run(&mut preloaded(&program)).succeeded().out, "x\n");
}

#[test]
fn nginx_under_wrk() {
    let nginx = Nginx::start();
    let seconds = if is_long() { 20 } else { 2 };
    let output = Wrk::new(&nginx.url("/page"), 64, seconds).run();
    assert!(output.requests > 100, "{}", output.text);
    assert_eq!((output.refused, output.errors), (0, 0), "{}", output.text);
    nginx.has_library();
}

/// Most programs are short: a count of system calls bounds the library's work before `main` and after it.
#[test]
fn a_short_process_makes_few_more_calls() {
    const NAME: &str = "a_short_process_makes_few_more_calls";
    if Command::new("strace").arg("-V").output().is_err() {
        return skip(NAME, "strace is not installed");
    }
    let scratch = steppe_testkit::Scratch::new("malloc-calls");
    let calls = |preload: &str| {
        let file = scratch.join("calls");
        let mut command = Command::new("strace");
        command
            .args(["-f", "-o"])
            .arg(&file)
            .arg(format!("-E{preload}"))
            .arg("true");
        run(&mut command).succeeded();
        let text = std::fs::read_to_string(file).expect("strace wrote it");
        text.lines().count()
    };
    let plain = calls("STEPPE_MALLOC_BACKGROUND=1");
    let with = calls(&format!("LD_PRELOAD={}", library().display()));
    println!("{plain} system calls without the library, {with} with it");
    assert!(with <= plain + CALLS_MAX, "{plain}, {with}");
}

/// System calls, at most, to open and map the library, to map the first chunk, and to count processors.
const CALLS_MAX: usize = 20;
