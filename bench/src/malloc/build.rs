//! Allocators that are built: Steppe, and those whose sources crates carry.
//!
//! C and C++ are compiled with the flags that the authors' own CMake files give a shared library in
//! a release build. Everything goes below `target/bench/`, and is not built again while it is there.

use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail, ensure};
use serde_json::Value;

use crate::peer::pypi;

/// The workspace.
pub fn root() -> PathBuf {
    let bench = Path::new(env!("CARGO_MANIFEST_DIR"));
    bench
        .parent()
        .expect("the bench is a folder of the workspace")
        .to_owned()
}

/// Where cargo builds.
pub fn target_dir() -> Result<PathBuf> {
    let folder = env::var_os("CARGO_TARGET_DIR").map_or_else(|| root().join("target"), Into::into);
    Ok(std::path::absolute(folder)?)
}

/// Our own, in release, or the one that was named.
pub fn steppe(named: Option<&Path>) -> Result<(PathBuf, String)> {
    let library = match named {
        Some(path) => path.to_owned(),
        None => {
            cargo(
                &[
                    "build",
                    "--profile",
                    "release-malloc",
                    "--package",
                    "steppe-malloc-abi",
                ],
                &root(),
            )?;
            target_dir()?.join("release-malloc/libsteppe_malloc.so")
        }
    };
    let library = library
        .canonicalize()
        .with_context(|| format!("no library at {}", library.display()))?;
    Ok((library, "of this checkout".to_owned()))
}

/// mimalloc as `libmimalloc-sys` carries it; `line` is the folder of its major version.
pub fn mimalloc(line: &str) -> Result<(PathBuf, String)> {
    let (folder, _) = sources("libmimalloc-sys")?;
    let folder = folder.join("c_src/mimalloc").join(line);
    let header = folder.join("include/mimalloc.h");
    let text = fs::read_to_string(&header).with_context(|| header.display().to_string())?;
    let version = mimalloc_version(&text).context("mimalloc.h names no version")?;
    let library = folder_of_libraries()?.join(format!("libmimalloc-{version}.so"));
    if !library.exists() {
        let flags = "-O3 -DNDEBUG -DMI_BUILD_RELEASE -DMI_MALLOC_OVERRIDE -DMI_SHARED_LIB \
                     -DMI_SHARED_LIB_EXPORT -fPIC -shared -fvisibility=hidden \
                     -fno-builtin-malloc -ftls-model=initial-exec -pthread";
        let include = folder.join("include");
        compile(
            "cc",
            flags,
            &include,
            &[folder.join("src/static.c")],
            &library,
        )?;
    }
    Ok((library, version))
}

/// mimalloc as PyPI carries it: a release that no crate has yet.
pub fn mimalloc_of_pypi() -> Result<(PathBuf, String)> {
    let cache = folder_of_libraries()?;
    let file = "cmeel.prefix/lib/libmimalloc.so";
    let library = pypi::installed_in(&cache, "cmeel-mimalloc", PYPI_MIMALLOC, file)?;
    Ok((library, PYPI_MIMALLOC.to_owned()))
}

const PYPI_MIMALLOC: &str = "3.4.3";

/// snmalloc as `snmalloc-sys` carries it.
pub fn snmalloc() -> Result<(PathBuf, String)> {
    let (folder, version) = sources("snmalloc-sys")?;
    let source = folder.join("upstream/src");
    let library = folder_of_libraries()?.join(format!("libsnmalloc-{version}.so"));
    if !library.exists() {
        let flags = "-std=c++20 -O3 -DNDEBUG -DSNMALLOC_USE_WAIT_ON_ADDRESS=1 \
                     -DSNMALLOC_EXPORT=__attribute__((visibility(\"default\"))) \
                     -DSNMALLOC_USE_CXX11_DESTRUCTORS -fPIC -shared -fvisibility=hidden \
                     -ftls-model=initial-exec -fomit-frame-pointer -ffunction-sections \
                     -static-libstdc++ -static-libgcc";
        // Prefetching for writes and compare-and-swap of two words, where the CPU has them.
        let x86 = if cfg!(target_arch = "x86_64") {
            " -mcx16 -mprfchw"
        } else {
            ""
        };
        let files = ["malloc.cc", "new.cc"].map(|file| source.join("snmalloc/override").join(file));
        compile("c++", &format!("{flags}{x86}"), &source, &files, &library)?;
    }
    Ok((library, format!("of snmalloc-sys {version}")))
}

/// rusty_alloc in the library that `malloc-peers` makes of it.
pub fn rusty_alloc() -> Result<(PathBuf, String)> {
    let (_, version) = sources("rusty_alloc")?;
    let folder = folder_of_libraries()?;
    let target = folder
        .to_str()
        .context("the target folder's name is not UTF-8")?;
    cargo(
        &["build", "--release", "--target-dir", target],
        &peers_dir(),
    )?;
    let library = folder.join("release/librusty_alloc_preload.so");
    ensure!(library.is_file(), "cargo made no {}", library.display());
    Ok((library, version))
}

/// The program of the rows about idle memory.
pub fn idle_program() -> Result<PathBuf> {
    let folder = root().join("crates/steppe-malloc-abi/testdata");
    let program = folder_of_libraries()?.join("idleness");
    let flags = "-std=c11 -O1 -fno-builtin -pthread -D_GNU_SOURCE";
    compile("cc", flags, &folder, &[folder.join("idleness.c")], &program)?;
    Ok(program)
}

/// The first line that a program prints.
pub fn first_line(program: &str, arguments: &[&str]) -> Result<String> {
    let output = Command::new(program)
        .args(arguments)
        .output()
        .with_context(|| format!("cannot run {program}"))?;
    ensure!(
        output.status.success(),
        "{program} ended with {}",
        output.status
    );
    let text = String::from_utf8_lossy(&output.stdout);
    Ok(text.lines().next().unwrap_or_default().trim().to_owned())
}

fn peers_dir() -> PathBuf {
    root().join("bench/malloc-peers")
}

fn folder_of_libraries() -> Result<PathBuf> {
    let folder = target_dir()?.join("bench/malloc-peers");
    fs::create_dir_all(&folder).with_context(|| folder.display().to_string())?;
    Ok(folder)
}

/// Runs cargo quietly; what it says is shown when it fails.
pub fn cargo(arguments: &[&str], folder: &Path) -> Result<Vec<u8>> {
    let program = env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let mut command = Command::new(program);
    finish(command.args(arguments).arg("--locked").current_dir(folder))
}

#[expect(clippy::too_many_arguments, reason = "older than the limit")]
fn compile(
    compiler: &str,
    flags: &str,
    include: &Path,
    sources: &[PathBuf],
    library: &Path,
) -> Result<()> {
    eprintln!("building {}", library.display());
    // Under another name first: a build that is interrupted leaves no library behind.
    let unfinished = library.with_extension("unfinished");
    let mut command = Command::new(compiler);
    command
        .args(flags.split_ascii_whitespace())
        .arg("-I")
        .arg(include)
        .arg("-o")
        .arg(&unfinished)
        .args(sources)
        .arg("-latomic");
    finish(&mut command)?;
    fs::rename(&unfinished, library).with_context(|| library.display().to_string())
}

fn finish(command: &mut Command) -> Result<Vec<u8>> {
    let program = command.get_program().to_string_lossy().into_owned();
    let output = command
        .stdin(Stdio::null())
        .output()
        .with_context(|| format!("cannot run {program}"))?;
    if output.status.success() {
        return Ok(output.stdout);
    }
    let text = String::from_utf8_lossy(&output.stderr);
    let reason = text.lines().find(|line| line.contains("error"));
    bail!(
        "{program} ended with {}: {}",
        output.status,
        reason
            .or_else(|| text.lines().last())
            .unwrap_or("no reason given")
            .trim()
    )
}

/// The folder of a crate that `malloc-peers` pins, fetched if it is not there, and its version.
fn sources(name: &str) -> Result<(PathBuf, String)> {
    let arguments = ["metadata", "--format-version", "1", "--all-features"];
    let metadata = cargo(&arguments, &peers_dir())?;
    let metadata: Value = serde_json::from_slice(&metadata).context("cargo metadata")?;
    let mut packages = metadata["packages"].as_array().into_iter().flatten();
    let package = packages
        .find(|package| package["name"] == name)
        .with_context(|| format!("malloc-peers does not depend on {name}"))?;
    let manifest = package["manifest_path"]
        .as_str()
        .context("cargo metadata has no path")?;
    let folder = Path::new(manifest)
        .parent()
        .context("a manifest is in a folder")?;
    let version = package["version"].as_str().unwrap_or_default();
    Ok((folder.to_owned(), version.to_owned()))
}

/// `MI_MALLOC_VERSION` is a digit of the major version and two each of the others.
fn mimalloc_version(header: &str) -> Option<String> {
    let mut values = header
        .lines()
        .filter_map(|line| line.strip_prefix("#define MI_MALLOC_VERSION"));
    let number = values.next()?.split_ascii_whitespace().next()?;
    let number: u32 = number.parse().ok()?;
    let (major, minor, patch) = (number / 10_000, number / 100 % 100, number % 100);
    Some(format!("{major}.{minor}.{patch}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_version_is_read_from_the_header() {
        let header = "#pragma once\n#define MI_MALLOC_VERSION 30302   // major + 2 digits\n";
        assert_eq!(mimalloc_version(header).as_deref(), Some("3.3.2"));
        assert_eq!(mimalloc_version("#define OTHER 1\n"), None);
    }

    #[test]
    fn a_build_that_fails_says_why() {
        let mut command = Command::new("sh");
        command.args([
            "-c",
            "echo 'x.c:1: fatal error: no' >&2; echo rest >&2; exit 3",
        ]);
        let error = finish(&mut command).expect_err("it fails").to_string();
        assert!(error.ends_with("x.c:1: fatal error: no"), "{error}");
    }
}
