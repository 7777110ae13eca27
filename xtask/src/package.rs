//! Packages for installation: manual pages, the Debian package, the images, the lab's static binary.
//!
//! Everything is staged in `target/packaging`, which the package's list of files and the image's
//! recipe name. Pages and completions come from the binary itself. Leaves out: publishing any of it.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail};

use crate::process;

/// Pinned version. Another one may lay the package out differently: a commit adopts it.
const CARGO_DEB_VERSION: &str = "3.8.0";

/// Target of static binaries. Needs `musl-gcc` (package musl-tools).
const STATIC_TARGET: &str = "x86_64-unknown-linux-musl";

/// Completions: the shell, and prefix and suffix of the program's name in the name of the shell's file.
const COMPLETIONS: [(&str, &str, &str); 3] =
    [("bash", "", ""), ("zsh", "_", ""), ("fish", "", ".fish")];

/// Writes the manual pages to `target/packaging/man`, by a quick build.
pub fn man() -> Result<bool> {
    let mut build = process::cargo(&["build", "--locked", "--package", "steppe"]);
    process::run(&mut build)?;
    pages(&process::target_directory().join("debug/steppe"))?;
    Ok(true)
}

/// Builds the Debian package.
pub fn deb() -> Result<bool> {
    let cargo_deb = ensure_cargo_deb()?;
    let mut build = process::cargo(&["build", "--locked", "--release", "--package", "steppe"]);
    process::run(&mut build)?;
    let binary = process::target_directory().join("release/steppe");
    pages(&binary)?;
    completions(&binary, &staged("completions")?, "steppe")?;
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
        .args(["--package", "steppe", "--output"])
        .arg(staged("deb")?);
    process::run(&mut package)?;
    Ok(true)
}

/// Builds the node's image, with podman, buildah or docker.
pub fn image() -> Result<bool> {
    let binary = static_binary("steppe", "steppe")?;
    let context = staged("image")?;
    copy(&binary, &context.join("steppe"))?;
    let recipe = process::root().join("packaging/oci");
    copy(&recipe.join("steppe.toml"), &context.join("steppe.toml"))?;
    build_image("steppe", &recipe.join("Containerfile"), &context)?;
    Ok(true)
}

/// Builds the lab's static binary and its completions, `target/packaging/lab`.
pub fn lab() -> Result<bool> {
    let folder = stage_lab()?;
    println!("{}", folder.join("steppe-lab").display());
    Ok(true)
}

/// Builds the lab's image: the static binary alone.
pub fn lab_image() -> Result<bool> {
    let context = stage_lab()?;
    let recipe = process::root().join("packaging/oci/lab.Containerfile");
    build_image("steppe-lab", &recipe, &context)?;
    Ok(true)
}

fn stage_lab() -> Result<PathBuf> {
    let binary = static_binary("steppe-lab", "steppe-lab")?;
    let folder = staged("lab")?;
    let program = folder.join("steppe-lab");
    copy(&binary, &program)?;
    // In a folder of their own: bash looks for a file of the program's name.
    let beside = folder.join("completions");
    fs::create_dir(&beside).with_context(|| format!("cannot make {}", beside.display()))?;
    completions(&program, &beside, "steppe-lab")?;
    Ok(folder)
}

/// Builds a program that runs on any Linux of this architecture, and returns its path.
fn static_binary(package: &str, program: &str) -> Result<PathBuf> {
    let mut build = process::cargo(&["build", "--locked", "--release", "--package", package]);
    // Debug information is a third of the binary, which no debugger will read.
    build.env("CARGO_PROFILE_RELEASE_STRIP", "debuginfo");
    process::run(build.args(["--target", STATIC_TARGET]))?;
    let built = process::target_directory().join(STATIC_TARGET);
    Ok(built.join("release").join(program))
}

fn build_image(tag: &str, recipe: &Path, context: &Path) -> Result<()> {
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
    image.args(["--tag", tag, "--file"]);
    process::run(image.arg(recipe).arg(context))
}

fn pages(binary: &Path) -> Result<()> {
    process::run(Command::new(binary).arg("man").arg(staged("man")?))
}

fn completions(binary: &Path, folder: &Path, program: &str) -> Result<()> {
    for (shell, prefix, suffix) in COMPLETIONS {
        let text = process::output(Command::new(binary).args(["completions", shell]))?;
        let file = folder.join(format!("{prefix}{program}{suffix}"));
        fs::write(&file, text).with_context(|| format!("cannot write {}", file.display()))?;
    }
    Ok(())
}

/// An empty folder of `target/packaging`, always in the checkout: the package's list of files names it.
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
