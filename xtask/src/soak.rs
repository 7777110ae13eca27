//! `make soak`: the lab's scenarios, one after the other, each against the exit code that it is for.

use std::collections::BTreeMap;
use std::io::Write;
use std::path::PathBuf;
use std::process::Command;

use anyhow::{Context, Result, bail, ensure};

use crate::{audio, process};

/// A file of `scenarios/`, the lab's command that runs it, and the exit code.
struct Soak {
    name: &'static str,
    command: &'static str,
    /// Expected exit code of the lab: 1 where it has to find something.
    exit_code: i32,
    /// True if the scenario takes too long to run unless it is named.
    only_named: bool,
}

/// Quick ones first.
const SOAKS: [Soak; 35] = [
    soak("gateway-baseline", 0),
    soak("gateway-tls-baseline", 0),
    soak("gateway-h2-baseline", 0),
    soak("leaking", 1),
    soak("retaining", 1),
    soak("steady", 0),
    soak("plateau", 0),
    soak("nginx", 0),
    Soak {
        name: "gateway-leaks",
        command: "leaks",
        exit_code: 0,
        only_named: false,
    },
    soak("gateway-stress", 0),
    soak("gateway-tls-stress", 0),
    soak("gateway-protocols-stress", 0),
    soak("gateway-everything", 0),
    soak("dns", 0),
    cycle("plane-memory"),
    cycle("plane-thousand"),
    cycle("plane-waiting"),
    cycle("plane-held-few"),
    cycle("plane-held"),
    cycle("plane-crowd"),
    cycle("plane-json-memory"),
    cycle("plane-json-thousand"),
    cycle("plane-json-waiting"),
    cycle("plane-json-few"),
    cycle("plane-json"),
    cycle("plane-json-crowd"),
    cycle("plane-inference"),
    named("malloc-speed"),
    named("malloc-lean"),
    named("malloc-nginx"),
    named("malloc-redis"),
    named("malloc-node"),
    named("malloc-balanced"),
    named("malloc-idle"),
    named("audio"),
];

const fn soak(name: &'static str, exit_code: i32) -> Soak {
    Soak {
        name,
        command: "soak",
        exit_code,
        only_named: false,
    }
}

/// A scenario of `cycle`, which takes too long to run unless it is named.
const fn cycle(name: &'static str) -> Soak {
    Soak {
        command: "cycle",
        ..named(name)
    }
}

const fn named(name: &'static str) -> Soak {
    Soak {
        only_named: true,
        ..soak(name, 0)
    }
}

/// Runs the scenarios in `names`, or all that need not be named. True if each ended as expected.
pub fn command(names: &[String]) -> Result<bool> {
    let known = SOAKS.map(|soak| soak.name);
    if let Some(unknown) = names.iter().find(|name| !known.contains(&name.as_str())) {
        bail!("no scenario `{unknown}`; known: {}", known.join(", "));
    }
    let is_wanted = |soak: &&Soak| match names {
        [] => !soak.only_named,
        names => names.iter().any(|name| name == soak.name),
    };
    let wanted: Vec<&Soak> = SOAKS.iter().filter(is_wanted).collect();
    build(&wanted)?;
    if wanted.iter().any(|soak| needs_certificate(soak)) {
        make_certificate()?;
    }
    if wanted.iter().any(|soak| soak.name == "dns") {
        make_list()?;
    }
    let mut ends = BTreeMap::new();
    for soak in &wanted {
        ends.insert(soak.name, run(soak)?);
    }
    println!();
    for soak in &wanted {
        let (code, folder) = &ends[soak.name];
        let word = if *code == soak.exit_code {
            "as expected"
        } else {
            "NOT as expected"
        };
        println!(
            "{:<18} exit {code} ({word})  {}",
            soak.name,
            folder.display()
        );
    }
    Ok(wanted
        .iter()
        .all(|soak| ends[soak.name].0 == soak.exit_code))
}

/// True if the scenario's node serves TLS.
fn needs_certificate(soak: &Soak) -> bool {
    [
        "gateway-tls-baseline",
        "gateway-h2-baseline",
        "gateway-tls-stress",
        "gateway-protocols-stress",
        "gateway-leaks",
    ]
    .contains(&soak.name)
}

fn build(wanted: &[&Soak]) -> Result<()> {
    let release = ["build", "--locked", "--release", "--package"];
    let is_audio = |soak: &&Soak| soak.name == "audio";
    if wanted.iter().any(is_audio) {
        audio::build_for_soak()?;
    }
    if wanted.iter().all(is_audio) {
        return process::run(process::cargo(&release).arg("steppe-lab"));
    }
    process::run(process::cargo(&release).args(["steppe", "--package", "steppe-lab"]))?;
    process::run(process::cargo(&release).args(["steppe-lab", "--examples"]))?;
    if wanted.iter().any(|soak| soak.name.starts_with("malloc-")) {
        process::run(process::cargo(&release).arg("steppe-malloc-load"))?;
        let library = [
            "build",
            "--locked",
            "--profile",
            "release-malloc",
            "--package",
        ];
        process::run(process::cargo(&library).arg("steppe-malloc-abi"))?;
    }
    if wanted.iter().any(|soak| soak.command == "leaks") {
        // Memcheck sees only memory of the system's allocator.
        let system = [
            "steppe",
            "--no-default-features",
            "--features",
            "alloc-system",
        ];
        let folder = ["--target-dir", "target/system"];
        process::run(process::cargo(&release).args(system).args(folder))?;
    }
    Ok(())
}

/// A certificate for `localhost`, which the scenarios over TLS name.
fn make_certificate() -> Result<()> {
    let folder = process::target_directory().join("soak");
    std::fs::create_dir_all(&folder)?;
    let mut openssl = Command::new("openssl");
    openssl
        .args([
            "req",
            "-x509",
            "-newkey",
            "ec",
            "-pkeyopt",
            "ec_paramgen_curve:P-256",
        ])
        .args(["-nodes", "-days", "30", "-subj", "/CN=localhost"])
        .args(["-addext", "subjectAltName=DNS:localhost"])
        .args(["-addext", "basicConstraints=critical,CA:FALSE"])
        .arg("-keyout")
        .arg(folder.join("localhost.key"))
        .arg("-out")
        .arg(folder.join("localhost.crt"));
    process::run(&mut openssl)
}

/// A million names, which the forwarder's scenario blocks.
fn make_list() -> Result<()> {
    let path = process::target_directory().join("soak/million.txt");
    std::fs::create_dir_all(path.parent().context("it is in a folder")?)?;
    let mut list = std::io::BufWriter::new(std::fs::File::create(&path)?);
    for number in 0..1_000_000 {
        writeln!(list, "blocked{number}.test")?;
    }
    list.flush()
        .with_context(|| format!("cannot write {}", path.display()))
}

fn run(soak: &Soak) -> Result<(i32, PathBuf)> {
    let folder = process::target_directory().join("soak").join(soak.name);
    if folder.exists() {
        std::fs::remove_dir_all(&folder).with_context(|| folder.display().to_string())?;
    }
    println!("\n==> {}", soak.name);
    let lab = process::root().join("target/release/steppe-lab");
    let status = Command::new(lab)
        .args([soak.command, &format!("scenarios/{}.toml", soak.name), "-o"])
        .arg(&folder)
        .current_dir(process::root())
        .status()
        .context("cannot start steppe-lab")?;
    ensure!(status.code() != Some(130), "interrupted");
    Ok((status.code().unwrap_or(-1), folder))
}
