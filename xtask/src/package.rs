//! What people install: manual pages, the Debian package, the image.
//!
//! Everything is staged in `target/packaging`, which the package's list of files and the image's
//! recipe name. Pages and completions come from the binary itself. Leaves out: publishing any of it.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail};

use crate::process;

/// Another version may lay the package out differently: it is taken on by a change.
const CARGO_DEB_VERSION: &str = "3.8.0";

/// A binary that needs nothing of its surroundings. Needs `musl-gcc` (package musl-tools).
const STATIC_TARGET: &str = "x86_64-unknown-linux-musl";

/// Completions: the shell, and the file that it looks for.
const COMPLETIONS: [(&str, &str); 3] = [
    ("bash", "steppe"),
    ("zsh", "_steppe"),
    ("fish", "steppe.fish"),
];

/// Writes the manual pages to `target/packaging/man`, by a quick build.
pub fn man() -> Result<bool> {
    let mut build = process::cargo(&["build", "--locked", "--package", "steppe-node"]);
    process::run(&mut build)?;
    pages(&process::target_directory().join("debug/steppe"))?;
    Ok(true)
}

/// Builds the Debian package.
pub fn deb() -> Result<bool> {
    let cargo_deb = ensure_cargo_deb()?;
    let mut build = process::cargo(&["build", "--locked", "--release", "--package", "steppe-node"]);
    process::run(&mut build)?;
    let binary = process::target_directory().join("release/steppe");
    pages(&binary)?;
    completions(&binary)?;
    let mut package = Command::new(cargo_deb);
    package
        .current_dir(process::root())
        .args([
            "--quiet",
            "--no-build",
            "--no-dbgsym",
            "--strip",
            "--locked",
        ])
        .args(["--package", "steppe-node", "--output"])
        .arg(staged("deb")?);
    process::run(&mut package)?;
    Ok(true)
}

/// Builds the image, with whatever builds images here.
pub fn image() -> Result<bool> {
    let mut build = process::cargo(&["build", "--locked", "--release", "--package", "steppe-node"]);
    // Lines of the source are a third of the binary, and nobody debugs in there.
    build.env("CARGO_PROFILE_RELEASE_STRIP", "debuginfo");
    process::run(build.args(["--target", STATIC_TARGET]))?;
    let context = staged("image")?;
    let binary = process::target_directory().join(STATIC_TARGET);
    copy(&binary.join("release/steppe"), &context.join("steppe"))?;
    let recipe = process::root().join("packaging/oci");
    copy(&recipe.join("steppe.toml"), &context.join("steppe.toml"))?;
    let Some(builder) = ["podman", "buildah", "docker"].into_iter().find(is_there) else {
        println!("{} is the context of the image", context.display());
        bail!("podman, buildah or docker is needed to build it");
    };
    let mut image = Command::new(builder);
    image.arg("build");
    if builder != "docker" {
        // OCI's own format has no health check.
        image.args(["--format", "docker"]);
    }
    image.args(["--tag", "steppe", "--file"]);
    process::run(image.arg(recipe.join("Containerfile")).arg(&context))?;
    Ok(true)
}

fn pages(binary: &Path) -> Result<()> {
    process::run(Command::new(binary).arg("man").arg(staged("man")?))
}

fn completions(binary: &Path) -> Result<()> {
    let folder = staged("completions")?;
    for (shell, name) in COMPLETIONS {
        let text = process::output(Command::new(binary).args(["completions", shell]))?;
        let file = folder.join(name);
        fs::write(&file, text).with_context(|| format!("cannot write {}", file.display()))?;
    }
    Ok(())
}

/// A folder of `target/packaging`, empty. It is always the checkout's: the package names it.
fn staged(name: &str) -> Result<PathBuf> {
    let folder = process::root().join("target/packaging").join(name);
    if folder.exists() {
        fs::remove_dir_all(&folder)
            .with_context(|| format!("cannot empty {}", folder.display()))?;
    }
    fs::create_dir_all(&folder).with_context(|| format!("cannot make {}", folder.display()))?;
    Ok(folder)
}

fn copy(from: &Path, to: &Path) -> Result<()> {
    fs::copy(from, to).with_context(|| format!("cannot copy {}", from.display()))?;
    Ok(())
}

fn is_there(program: &&str) -> bool {
    let mut ask = Command::new(program);
    ask.arg("--version")
        .stdout(Stdio::null())
        .stderr(Stdio::null());
    ask.status().is_ok_and(|status| status.success())
}

/// Finds cargo-deb in `target/tools`, or builds it there.
fn ensure_cargo_deb() -> Result<PathBuf> {
    let tools = process::target_directory().join("tools");
    let program = tools.join("bin/cargo-deb");
    let version = process::output(Command::new(&program).arg("--version"));
    if version.is_ok_and(|version| version.trim_end().ends_with(CARGO_DEB_VERSION)) {
        return Ok(program);
    }
    let args = ["install", "cargo-deb", "--locked", "--debug", "--version"];
    let mut install = process::cargo(&args);
    install.args([CARGO_DEB_VERSION, "--root"]).arg(&tools);
    install
        .env("CARGO_PROFILE_DEV_DEBUG", "0")
        .env("CARGO_TARGET_DIR", tools.join("build"));
    process::run(&mut install).context("cargo-deb could not be installed")?;
    Ok(program)
}
