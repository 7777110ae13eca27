//! Libraries that are opened with `RTLD_DEEPBIND`: by default they meet the same `malloc` as their program.

use std::ffi::OsStr;
use std::path::PathBuf;
use std::process::Command;

use steppe_testkit::{Scratch, skip};

use crate::support::{Program, preloaded, run, static_library};

/// The program, with `lib/libouter.so` beside it and `lib/nested/libinner.so` beside that, each of which only the
/// RUNPATH of the one before it leads to.
struct Tree {
    scratch: Scratch,
}

impl Tree {
    fn new() -> Self {
        let tree = Self {
            scratch: Scratch::new("malloc-deep-binding"),
        };
        let nested = tree.scratch.join("lib/nested");
        std::fs::create_dir_all(nested).expect("scratch can be written");
        tree.compile("deep_binding.c", "program", &run_path("$ORIGIN/lib"));
        let shared = |run_path: Vec<String>| {
            let shared = ["-shared", "-fPIC"].map(str::to_owned);
            shared.into_iter().chain(run_path).collect::<Vec<_>>()
        };
        let outer = shared(run_path("$ORIGIN/nested"));
        tree.compile("deep_binding_plugin.c", "lib/libouter.so", &outer);
        let inner = shared(Vec::new());
        tree.compile("deep_binding_plugin.c", "lib/nested/libinner.so", &inner);
        tree.compile(
            "deep_binding_plugin.c",
            "lib/nested/libinner-unopened.so",
            &inner,
        );
        tree
    }

    fn compile(&self, source: &str, target: &str, arguments: &[String]) {
        let program = Program::compile_with(source, arguments);
        std::fs::copy(program.path(), self.scratch.join(target)).expect("scratch can be written");
    }

    fn program(&self) -> PathBuf {
        self.scratch.join("program")
    }
}

fn run_path(path: &str) -> Vec<String> {
    [
        format!("-Wl,-rpath,{path}"),
        "-Wl,--enable-new-dtags".to_owned(),
        "-ldl".to_owned(),
    ]
    .into()
}

#[test]
fn opened_libraries_meet_the_preloaded_malloc() {
    let tree = Tree::new();
    let ended = run(preloaded(tree.program()).arg("ours")).succeeded();
    assert_eq!(ended.errors, "");
}

/// For a program that counts on the flag.
#[test]
fn a_setting_keeps_the_flag() {
    let tree = Tree::new();
    let mut command = preloaded(tree.program());
    run(command.env("STEPPE_MALLOC_DEEPBIND", "1").arg("theirs")).succeeded();
}

/// Debian's PHP opens each of its extensions with the flag.
#[test]
fn php_works() {
    const NAME: &str = "php_works";
    const SCRIPT: &str = r#"
        for ($i = 0; $i < 20000; $i++) $texts[] = json_encode([$i, str_repeat("x", $i % 300)]);
        echo md5(implode($texts)), preg_replace('/(\d+)/', '<$1>', 'a 12 b 345'), "\n";
        foreach (get_loaded_extensions() as $name) echo $name, count(get_extension_funcs($name) ?: []), "\n";"#;
    let plain = Command::new("php").args(["-r", SCRIPT]).output();
    let Ok(plain) = plain else {
        return skip(NAME, "php is not installed");
    };
    let ended = run(preloaded("php").args(["-r", SCRIPT])).succeeded();
    assert_eq!(ended.out, String::from_utf8_lossy(&plain.stdout));
    assert_eq!(ended.errors, "");
}

/// No library follows a static program's own, and still it opens others by the C library's `dlopen`.
#[test]
fn static_programs_open_libraries() {
    const NAME: &str = "static_programs_open_libraries";
    let library = static_library();
    for kind in ["-static", "-static-pie", "-ldl"] {
        let plain = Program::compile_with("static_dlopen.c", &[kind]);
        if run(&mut Command::new(plain.path())).code != Some(0) {
            return skip(NAME, "the C library's static one opens no libraries");
        }
        let arguments = [library.as_os_str(), OsStr::new(kind)];
        let program = Program::compile_with("static_dlopen.c", &arguments);
        run(&mut Command::new(program.path())).succeeded();
    }
}
