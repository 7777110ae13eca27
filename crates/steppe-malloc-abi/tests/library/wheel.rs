//! The Python wheel: built by one command, installed into an environment of its own without a network.

use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::support::{run, target_directory, testdata};
use crate::targets::{MUSL, runs};
use steppe_testkit::{Scratch, skip};

/// Arguments of Python for the wheel's module.
const MODULE: [&str; 2] = ["-m", "steppe_malloc"];

/// True if this machine's Python builds wheels and has environments.
fn can_build(test: &str) -> bool {
    let needed = "import ensurepip, pip, tomllib, venv";
    let has_all = Command::new("python3").args(["-c", needed]).output();
    let can = has_all.is_ok_and(|output| output.status.success());
    if !can {
        skip(
            test,
            "python3 with pip, venv and tomllib (3.11) is not installed",
        );
    }
    can
}

/// Builds the wheel of a platform into a folder; returns its path.
fn build(folder: &Scratch, platform: &str, settings: &[&str]) -> PathBuf {
    let mut build = Command::new("python3");
    build
        .args(["-m", "pip", "wheel", "--quiet", "--no-deps", "--no-index"])
        .arg("--wheel-dir")
        .arg(folder.path())
        .args(settings)
        .arg(Path::new(env!("CARGO_MANIFEST_DIR")).join("../../packaging/python"))
        .env("CARGO_TARGET_DIR", target_directory())
        .env("PYTHONDONTWRITEBYTECODE", "1")
        .env_remove("RUSTFLAGS");
    run(&mut build).succeeded();
    let version = env!("CARGO_PKG_VERSION");
    let wheel = folder.join(&format!("steppe_malloc-{version}-py3-none-{platform}.whl"));
    assert!(wheel.exists(), "{}", wheel.display());
    wheel
}

struct Installed {
    scratch: Scratch,
    python: PathBuf,
}

impl Installed {
    /// Builds and installs the wheel. `None`: this machine can't.
    fn make(test: &str) -> Option<Self> {
        if !can_build(test) {
            return None;
        }
        let scratch = Scratch::new("malloc-wheel");
        let platform = format!("manylinux_2_28_{}", std::env::consts::ARCH);
        let wheel = build(&scratch, &platform, &[]);
        let environment = scratch.join("environment");
        // The installation of pip would take most of the test's time.
        let make = ["-m", "venv", "--without-pip"];
        run(Command::new("python3").args(make).arg(&environment)).succeeded();
        let python = environment.join("bin/python");
        let mut install = Command::new("python3");
        install
            .args(["-m", "pip", "--python"])
            .arg(&python)
            .args(["install", "--quiet", "--no-index", "--no-deps"])
            .arg(wheel);
        run(&mut install).succeeded();
        Some(Self { scratch, python })
    }

    fn module(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(&self.python);
        command
            .args(MODULE)
            .args(arguments)
            .current_dir(self.scratch.path());
        command
    }
}

/// Prints the library that the process has loaded, its profile, and the arguments.
const LOADED: &str = "
import ctypes, sys
profile = ctypes.CDLL(None).steppe_malloc_profile
profile.restype = ctypes.c_char_p
loaded = {line.split()[-1] for line in open('/proc/self/maps') if 'libsteppe_malloc' in line}
print(*loaded, profile().decode(), *sys.argv[1:])
";

/// Checks that each file of the wheel matches its RECORD.
const AS_RECORDED: &str = "
import base64, hashlib, importlib.metadata as metadata
package = metadata.distribution('steppe-malloc')
files = [file for file in package.files if file.hash is not None]
for file in files:
    content = file.read_binary()
    digest = base64.urlsafe_b64encode(hashlib.sha256(content).digest()).rstrip(b'=').decode()
    assert (file.hash.mode, file.hash.value, file.size) == ('sha256', digest, len(content)), file
print(len(files), package.version, package.metadata['License-Expression'])
";

#[test]
fn a_wheel_preloads_the_library() {
    let Some(installed) = Installed::make("a_wheel_preloads_the_library") else {
        return;
    };
    let path = run(&mut installed.module(&["path"])).succeeded().out;
    let path = path.trim_end();
    assert!(
        Path::new(path).is_absolute() && Path::new(path).exists(),
        "{path}"
    );

    let recorded = run(Command::new(&installed.python).args(["-c", AS_RECORDED])).succeeded();
    let (count, rest) = recorded
        .out
        .trim_end()
        .split_once(' ')
        .expect("three words");
    assert_eq!(
        rest,
        concat!(env!("CARGO_PKG_VERSION"), " MIT OR Apache-2.0")
    );
    assert!(
        count.parse::<u32>().is_ok_and(|count| count >= 7),
        "{recorded:#?}"
    );

    // Python of the environment, which is not activated.
    let program = ["--", "python", "-c", LOADED, "--profile", "x y"];
    let lean = [&["run", "--profile", "lean"], &program[..]].concat();
    for (arguments, profile) in [
        (lean, "lean"),
        ([&["run"], &program[..]].concat(), "balanced"),
    ] {
        let ended = run(&mut installed.module(&arguments)).succeeded();
        assert_eq!(ended.out, format!("{path} {profile} --profile x y\n"));
    }

    // A console script; libraries that are preloaded already stay preloaded.
    let text = format!("#!{}\nprint('hello')\n", installed.python.display());
    let hello = installed.scratch.write("environment/bin/hello", &text);
    let executable = std::fs::Permissions::from_mode(0o755);
    std::fs::set_permissions(hello, executable).expect("it is ours");
    let mut script = installed.module(&["run", "hello"]);
    script
        .env("STEPPE_MALLOC_STATS", "1")
        .env("LD_PRELOAD", "libm.so.6");
    let ended = run(&mut script).succeeded();
    assert_eq!(ended.out, "hello\n", "{ended:#?}");
    assert!(
        ended.errors.contains("{\"profile\":\"balanced\""),
        "{ended:#?}"
    );
    let mut variable = installed.module(&["run", "--", "sh", "-c", "echo $LD_PRELOAD"]);
    let ended = run(variable.env("LD_PRELOAD", "libm.so.6")).succeeded();
    assert_eq!(ended.out, format!("{path}:libm.so.6\n"));
    keeps_exit_codes(&installed);
}

/// Exit codes are the program's own, or a shell's: 127 not found, 126 not executable.
fn keeps_exit_codes(installed: &Installed) {
    let endings: [(&[&str], i32); 4] = [
        (&["run", "--", "sh", "-c", "exit 7"], 7),
        (&["run", "--", "no-such-program"], 127),
        (&["run", "--", "/proc/self/status"], 126),
        (&["run", "--"], 2),
    ];
    for (arguments, code) in endings {
        let ended = run(&mut installed.module(arguments));
        assert_eq!(ended.code, Some(code), "{ended:#?}");
        assert_eq!(ended.errors.is_empty(), code == 7, "{ended:#?}");
    }
}

/// A wheel for Alpine: this machine lacks Alpine's Python, but has pip, and programs of musl.
#[test]
fn a_wheel_for_musl() {
    const NAME: &str = "a_wheel_for_musl";
    if !runs(NAME, MUSL, &["musl-gcc"]) || !can_build(NAME) {
        return;
    }
    let folder = Scratch::new("malloc-wheel");
    let target = format!("target={MUSL}");
    let platform = "musllinux_1_2_x86_64";
    let wheel = build(&folder, platform, &["--config-settings", &target]);
    let installed = folder.join("installed");
    let mut install = Command::new("python3");
    install
        .args(["-m", "pip", "install", "--quiet", "--no-index", "--no-deps"])
        .args(["--only-binary", ":all:", "--platform", platform, "--target"])
        .args([&installed, &wheel]);
    run(&mut install).succeeded();
    let program = folder.join("silent");
    let mut compile = Command::new("musl-gcc");
    compile.arg(testdata("silent.c")).arg("-o").arg(&program);
    run(&mut compile).succeeded();
    let mut silent = Command::new(&program);
    silent
        .env(
            "LD_PRELOAD",
            installed.join("steppe_malloc/libsteppe_malloc.so"),
        )
        .env("STEPPE_MALLOC_STATS", "1");
    let ended = run(&mut silent).succeeded();
    assert!(ended.errors.starts_with("{\"profile\":"), "{ended:#?}");
}
