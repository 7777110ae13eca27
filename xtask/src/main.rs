//! `cargo xtask`: what the Makefile calls, and what people call when they want one part of it.
//!
//! Nothing here is part of the product. `scripts/setup.sh` does what Rust itself needs first
//! (packages, the toolchain).

mod affected;
mod audio;
mod cargo_test;
mod costs;
mod deny;
mod dependencies;
mod flakes;
mod fuzz;
mod git;
mod house;
mod jobs;
mod libtest;
mod mutants;
mod outside_links;
mod package;
mod performance;
mod process;
mod programs;
mod proofs;
mod pypi;
mod report;
mod sanitize;
mod soak;
mod tidy;
mod tiers;
mod tools;
mod truths;
mod workspace;

use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Args, Parser, Subcommand};

#[derive(Parser)]
#[command(
    name = "cargo xtask",
    about = "Tests, fuzzing, tidiness and packages of Steppe"
)]
struct CommandLine {
    #[command(subcommand)]
    task: Task,
}

#[derive(Subcommand)]
enum Task {
    /// The first tier: lints, tidy, licenses, and the tests that the change since the last green run reaches
    Test {
        /// Seconds that each fuzz target runs
        #[arg(long, value_name = "N", default_value_t = 5)]
        fuzz_seconds: u64,
    },
    /// The whole first tier, then the long tests (STEPPE_LONG=1), with longer fuzzing
    TestAll {
        /// Seconds that each fuzz target runs
        #[arg(long, value_name = "N", default_value_t = 600)]
        fuzz_seconds: u64,
    },
    /// Fuzz parsers with libFuzzer, on the stable toolchain
    Fuzz(FuzzArgs),
    /// Run test programs again and again on busy cores, and count the tests that fail
    Flakes(FlakesArgs),
    /// The allocator under loom, Miri and ThreadSanitizer
    Prove,
    /// The node's integration tests under AddressSanitizer
    Asan,
    /// The budget's second line of defense: a node that charges nothing for heads of HTTP/2
    SecondLine,
    /// Break the code of steppe-http place by place, and see that its library tests notice: hours
    Mutants {
        /// Parts of paths of the files in crates/steppe-http/mutants.toml; all files when none is named
        #[arg(value_name = "FILE")]
        files: Vec<String>,
    },
    /// Run the lab's scenarios, about 35 minutes in all
    Soak {
        /// Scenarios, as the files of scenarios/ are called; when none is named, all but those of the allocator and of sound
        #[arg(value_name = "SCENARIO")]
        names: Vec<String>,
    },
    /// Soak planted sicknesses and their healthy twins, about 40 minutes, and write the table of docs/performance/lab.md
    LabTruths {
        /// Truths to soak again, as xtask/src/truths/planted.rs names them; all when none is named
        #[arg(value_name = "TRUTH")]
        names: Vec<String>,
    },
    /// Soak healthy servers in turn, a minute each, and write to docs/performance/lab.md how many were alarms
    LabHealthy {
        /// Number of servers
        #[arg(long, value_name = "N", default_value_t = 20)]
        runs: usize,
    },
    /// Write the rows in which a peer is ahead at the head of each page of docs/performance/
    Performance,
    /// Write the manual pages to target/packaging/man
    Man,
    /// Build the Debian package in target/packaging/deb
    Deb,
    /// Build the image `steppe`, with podman, buildah or docker
    Image,
    /// Build the lab's static binary and its completions in target/packaging/lab
    Lab,
    /// Build the image `steppe-lab`, with podman, buildah or docker
    LabImage,
    /// Figures of the house style: the gateway's crates beside rustls and hyper
    #[command(after_help = house::DEFINITIONS)]
    House(HouseArgs),
    /// The rules of the house that no compiler checks
    Tidy {
        /// First take mended violations off the list of known ones; none is added
        #[arg(long)]
        shrink: bool,
    },
}

#[derive(Args)]
struct FuzzArgs {
    /// Seconds that each target runs
    #[arg(long, value_name = "N", default_value_t = 60)]
    seconds: u64,
    /// Run one target on this file only: how a crash is reproduced
    #[arg(long, value_name = "FILE", conflicts_with = "keep")]
    input: Option<PathBuf>,
    /// Afterwards, add the inputs that reach new code to the committed corpus
    #[arg(long)]
    keep: bool,
    /// The targets that feed parsers of this crate; may be given several times
    #[arg(long = "crate", value_name = "CRATE", conflicts_with = "targets")]
    crates: Vec<String>,
    /// Targets, as named in fuzz/Cargo.toml; all of them when none is named
    #[arg(value_name = "TARGET")]
    targets: Vec<String>,
}

#[derive(Args)]
struct FlakesArgs {
    /// Runs that each program needs in all: an earlier hunt is continued
    #[arg(long, value_name = "N", default_value_t = 20)]
    runs: usize,
    /// Forget earlier counts of these programs first
    #[arg(long)]
    fresh: bool,
    /// Programs such as `steppe-dns/lib`, or packages; all of them when none is named
    #[arg(value_name = "PROGRAM")]
    programs: Vec<String>,
}

#[derive(Args)]
struct HouseArgs {
    /// Fetch quinn and Pingora too, by versions of their own, and count them
    #[arg(long)]
    peers: bool,
    /// Print the places behind a figure: of the four crates, or of each PATH
    #[arg(long, value_name = "KIND", conflicts_with = "peers")]
    list: Option<house::Kind>,
    /// Folders of packages, or of checkouts: a column each
    #[arg(value_name = "PATH")]
    paths: Vec<PathBuf>,
}

impl From<HouseArgs> for house::Request {
    fn from(args: HouseArgs) -> Self {
        Self {
            with_peers: args.peers,
            list: args.list,
            paths: args.paths,
        }
    }
}

impl From<FlakesArgs> for flakes::Hunt {
    fn from(args: FlakesArgs) -> Self {
        Self {
            runs: args.runs,
            programs: args.programs,
            is_fresh: args.fresh,
        }
    }
}

fn main() -> ExitCode {
    let outcome = match CommandLine::parse().task {
        Task::Test { fuzz_seconds } => tiers::test(fuzz_seconds),
        Task::TestAll { fuzz_seconds } => tiers::test_all(fuzz_seconds),
        Task::Fuzz(args) => fuzz_command(&args),
        Task::Flakes(args) => flakes::command(&args.into()),
        Task::Prove => proofs::command(),
        Task::Asan => sanitize::command(),
        Task::SecondLine => tiers::second_line_command(),
        Task::Mutants { files } => mutants::command(&files),
        Task::Soak { names } => soak::command(&names),
        Task::LabTruths { names } => truths::command(&names),
        Task::LabHealthy { runs } => truths::healthy(runs),
        Task::Performance => performance::command().map(|()| true),
        Task::Man => package::man(),
        Task::Deb => package::deb(),
        Task::Image => package::image(),
        Task::Lab => package::lab(),
        Task::LabImage => package::lab_image(),
        Task::House(args) => house::command(&args.into()),
        Task::Tidy { shrink: true } => tidy::shrink(),
        Task::Tidy { shrink: false } => tidy::command(),
    };
    match outcome {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("xtask: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn fuzz_command(args: &FuzzArgs) -> anyhow::Result<bool> {
    let targets = match &args.crates[..] {
        [] => fuzz::select(&args.targets)?,
        crates => fuzz::targets_of_crates(&crates.iter().cloned().collect())?,
    };
    let is_one = args.input.is_none() || targets.len() == 1;
    anyhow::ensure!(is_one, "--input needs exactly one TARGET");
    let harness = fuzz::Harness::build(&targets)?;
    if let Some(input) = &args.input {
        harness.reproduce(&targets[0], input)?;
        return Ok(true);
    }
    for target in &targets {
        println!("{target}: {}", harness.run(target, args.seconds)?);
        if args.keep {
            harness.keep_new_finds(target)?;
        }
    }
    Ok(true)
}
