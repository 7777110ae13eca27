//! Libraries that are opened with `RTLD_DEEPBIND`: by default they use the same `malloc` as their program.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::Command;

use steppe_testkit::{Scratch, skip};

use crate::support::{Program, preloaded, run, static_library};

/// The program, with `lib/libouter.so` beside it and `lib/nested/libinner.so` beside that, each of which only the
/// RUNPATH of the one before it leads to.
pub struct Tree {
    scratch: Scratch,
}

impl Tree {
    /// Compiles all three by a function that gets the source, further arguments and the target.
    pub fn new(compile: impl Fn(&str, &[&str], &Path)) -> Self {
        const PLUGIN: &str = "deep_binding_plugin.c";
        let tree = Self {
            scratch: Scratch::new("malloc-deep-binding"),
        };
        let nested = tree.scratch.join("lib/nested");
        std::fs::create_dir_all(&nested).expect("scratch can be written");
        let program = ["-Wl,-rpath,$ORIGIN/lib", "-Wl,--enable-new-dtags", "-ldl"];
        compile("deep_binding.c", &program, &tree.program());
        let outer = [
            "-shared",
            "-fPIC",
            "-Wl,-rpath,$ORIGIN/nested",
            "-Wl,--enable-new-dtags",
        ];
        compile(PLUGIN, &outer, &tree.scratch.join("lib/libouter.so"));
        for inner in ["libinner.so", "libinner-unopened.so"] {
            compile(PLUGIN, &["-shared", "-fPIC"], &nested.join(inner));
        }
        tree
    }

    pub fn program(&self) -> PathBuf {
        self.scratch.join("program")
    }
}

fn tree() -> Tree {
    Tree::new(|source, arguments, target| {
        let program = Program::compile_with(source, arguments);
        std::fs::copy(program.path(), target).expect("scratch can be written");
    })
}

#[test]
fn opened_libraries_meet_the_preloaded_malloc() {
    let tree = tree();
    let ended = run(preloaded(tree.program()).arg("ours")).succeeded();
    assert_eq!(ended.errors, "");
}

/// The flag is kept by the setting, for a program that relies on it.
#[test]
fn a_setting_keeps_the_flag() {
    let tree = tree();
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

/// A static program is followed by no library, and still opens others by the C library's `dlopen`.
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
