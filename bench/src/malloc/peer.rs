//! The allocators that are compared, and the source of each one's library.
//!
//! Invariant: an allocator runs as its authors ship it, settings untouched, unless its name says
//! otherwise. An allocator that isn't available is reported with the reason, and the others run.

use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail, ensure};
use clap::ValueEnum;

use super::build;
use crate::before::Build;

/// An allocator under comparison.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, ValueEnum)]
pub enum Peer {
    /// Steppe with its default settings
    SteppeBalanced,
    /// STEPPE_MALLOC_PROFILE=speed
    SteppeSpeed,
    /// STEPPE_MALLOC_PROFILE=lean
    SteppeLean,
    /// The library that `--before` names, with its default settings
    #[value(skip)]
    BeforeBalanced,
    /// The same with STEPPE_MALLOC_PROFILE=speed
    #[value(skip)]
    BeforeSpeed,
    /// The same with STEPPE_MALLOC_PROFILE=lean
    #[value(skip)]
    BeforeLean,
    /// The C library's own allocator
    Glibc,
    /// Debian's libmimalloc2.0
    MimallocDebian,
    /// The newest version 2 that a crate carries
    #[value(name = "mimalloc-2")]
    Mimalloc2,
    /// The newest version 3 that a crate carries
    #[value(name = "mimalloc-3")]
    Mimalloc3,
    /// The newest version 3 that PyPI carries
    MimallocPypi,
    /// Debian's libjemalloc2
    Jemalloc,
    /// The same with MALLOC_CONF=background_thread:true,dirty_decay_ms:1000
    JemallocBg,
    /// Debian's libtcmalloc-minimal4
    Tcmalloc,
    /// The sources in the crate snmalloc-sys
    Snmalloc,
    /// The crate rusty_alloc
    RustyAlloc,
}

/// An allocator that is available.
#[derive(Debug, Clone)]
pub struct Contestant {
    pub peer: Peer,
    pub version: String,
    /// The library to preload; `None` for the system's own.
    pub library: Option<PathBuf>,
}

/// Libraries of Steppe's allocator.
#[derive(Debug, Default)]
pub struct Libraries {
    /// Today's; `None` builds it.
    pub steppe: Option<PathBuf>,
    /// The library of another commit.
    pub before: Option<PathBuf>,
}

impl Peer {
    pub const fn name(self) -> &'static str {
        match self {
            Self::SteppeBalanced => "steppe-balanced",
            Self::SteppeSpeed => "steppe-speed",
            Self::SteppeLean => "steppe-lean",
            Self::BeforeBalanced => "before-balanced",
            Self::BeforeSpeed => "before-speed",
            Self::BeforeLean => "before-lean",
            Self::Glibc => "glibc",
            Self::MimallocDebian => "mimalloc-debian",
            Self::Mimalloc2 => "mimalloc-2",
            Self::Mimalloc3 => "mimalloc-3",
            Self::MimallocPypi => "mimalloc-pypi",
            Self::Jemalloc => "jemalloc",
            Self::JemallocBg => "jemalloc-bg",
            Self::Tcmalloc => "tcmalloc",
            Self::Snmalloc => "snmalloc",
            Self::RustyAlloc => "rusty-alloc",
        }
    }

    /// The same profile of the other commit's library.
    pub const fn before(self) -> Option<Self> {
        match self {
            Self::SteppeBalanced => Some(Self::BeforeBalanced),
            Self::SteppeSpeed => Some(Self::BeforeSpeed),
            Self::SteppeLean => Some(Self::BeforeLean),
            _ => None,
        }
    }

    pub const fn is_mimalloc(self) -> bool {
        matches!(
            self,
            Self::MimallocDebian | Self::Mimalloc2 | Self::Mimalloc3 | Self::MimallocPypi
        )
    }

    /// The environment variable of this allocator alone: its name and its value.
    pub const fn setting(self) -> Option<(&'static str, &'static str)> {
        match self {
            Self::SteppeSpeed | Self::BeforeSpeed => Some(("STEPPE_MALLOC_PROFILE", "speed")),
            Self::SteppeLean | Self::BeforeLean => Some(("STEPPE_MALLOC_PROFILE", "lean")),
            Self::JemallocBg => Some(("MALLOC_CONF", "background_thread:true,dirty_decay_ms:1000")),
            _ => None,
        }
    }

    fn prepare(self, libraries: &Libraries) -> Result<Contestant> {
        let (library, version) = match self {
            Self::SteppeBalanced | Self::SteppeSpeed | Self::SteppeLean => {
                build::steppe(libraries.steppe.as_deref())?
            }
            Self::BeforeBalanced | Self::BeforeSpeed | Self::BeforeLean => {
                let library = libraries.before.clone().context("no library of before")?;
                (library, "of another commit".to_owned())
            }
            Self::Glibc => return Ok(glibc()),
            Self::MimallocDebian => debian("libmimalloc.so.2", "libmimalloc2.0")?,
            Self::Mimalloc2 => build::mimalloc("v2")?,
            Self::Mimalloc3 => build::mimalloc("v3")?,
            Self::MimallocPypi => build::mimalloc_of_pypi()?,
            Self::Jemalloc | Self::JemallocBg => debian("libjemalloc.so.2", "libjemalloc2")?,
            Self::Tcmalloc => debian("libtcmalloc_minimal.so.4", "libtcmalloc-minimal4")?,
            Self::Snmalloc => build::snmalloc()?,
            Self::RustyAlloc => build::rusty_alloc()?,
        };
        Ok(Contestant {
            peer: self,
            version,
            library: Some(library),
        })
    }
}

impl Contestant {
    /// Variables of the program's environment: the preloaded library, and the allocator's setting.
    pub fn environment(&self) -> Vec<(&'static str, OsString)> {
        let preload = self
            .library
            .as_ref()
            .map(|path| ("LD_PRELOAD", path.into()));
        let setting = self.peer.setting();
        preload
            .into_iter()
            .chain(setting.map(|(name, value)| (name, value.into())))
            .collect()
    }
}

impl Libraries {
    /// Finds or builds today's library, and copies both to paths of one length.
    ///
    /// # Errors
    /// When today's does not build, or one of them is no library of Steppe's allocator that loads.
    pub fn compared(steppe: Option<&Path>, before: &Path, run_dir: &Path) -> Result<Self> {
        ensure_loads(before).context("--before")?;
        let (steppe, _) = build::steppe(steppe)?;
        ensure_loads(&steppe)?;
        Ok(Self {
            steppe: Some(Build::Now.copied(&steppe, run_dir)?),
            before: Some(Build::Before.copied(before, run_dir)?),
        })
    }
}

/// Checks a library before it is preloaded: the dynamic linker ignores one that it can't load, with no
/// more than a line on standard error, and the system's allocator would be measured instead.
fn ensure_loads(library: &Path) -> Result<()> {
    let library = std::path::absolute(library)?;
    let bytes =
        fs::read(&library).with_context(|| format!("no library at {}", library.display()))?;
    let has_name = bytes.windows(NAME.len()).any(|window| window == NAME);
    ensure!(
        has_name,
        "{} is no libsteppe_malloc.so: it does not export steppe_malloc_version",
        library.display()
    );
    let output = Command::new("true").env("LD_PRELOAD", &library).output()?;
    let complaint = String::from_utf8_lossy(&output.stderr);
    ensure!(
        output.status.success() && complaint.is_empty(),
        "{} does not load: {}",
        library.display(),
        complaint.trim()
    );
    Ok(())
}

const NAME: &[u8] = b"steppe_malloc_version";

/// The allocators that are available, and the names of the others with the reason.
pub fn prepare_all(peers: &[Peer], libraries: &Libraries) -> (Vec<Contestant>, Vec<String>) {
    let (mut contestants, mut skipped) = (Vec::new(), Vec::new());
    for peer in peers {
        match peer.prepare(libraries) {
            Ok(contestant) => contestants.push(contestant),
            Err(error) => {
                let reason = format!("{}: {error:#}", peer.name());
                eprintln!("skipped {reason}");
                skipped.push(reason);
            }
        }
    }
    (contestants, skipped)
}

fn glibc() -> Contestant {
    let version = build::first_line("ldd", &["--version"]).unwrap_or_default();
    Contestant {
        peer: Peer::Glibc,
        version: version.rsplit(' ').next().unwrap_or_default().to_owned(),
        library: None,
    }
}

/// A library of the distribution, and the version of its package.
fn debian(file: &str, package: &str) -> Result<(PathBuf, String)> {
    let folders = [
        format!("/usr/lib/{}-linux-gnu", std::env::consts::ARCH),
        "/usr/lib64".to_owned(),
        "/usr/lib".to_owned(),
    ];
    let mut candidates = folders.iter().map(|folder| Path::new(folder).join(file));
    let Some(library) = candidates.find(|candidate| candidate.is_file()) else {
        bail!("{file} is not installed (Debian: apt-get install {package})");
    };
    let version = build::first_line("dpkg-query", &["-W", "-f=${Version}", package])
        .unwrap_or_else(|_| "of the system".to_owned());
    let library = library
        .canonicalize()
        .with_context(|| library.display().to_string())?;
    Ok((library, version))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_those_of_the_command_line() {
        for peer in Peer::value_variants() {
            let value = peer.to_possible_value().expect("none is hidden");
            assert_eq!(value.get_name(), peer.name());
        }
    }

    #[test]
    fn the_other_build_has_the_profile_and_names_as_long() {
        for peer in Peer::value_variants() {
            let Some(before) = peer.before() else {
                continue;
            };
            assert_eq!(peer.setting(), before.setting());
            assert_eq!(peer.name().len(), before.name().len());
        }
    }

    #[test]
    fn what_is_no_library_of_ours_is_refused() {
        let missing = ensure_loads(Path::new("/no/such.so")).expect_err("it is not there");
        assert_eq!(missing.to_string(), "no library at /no/such.so");
        let other = ensure_loads(Path::new("/bin/true")).expect_err("it is a program");
        assert!(
            other.to_string().contains("steppe_malloc_version"),
            "{other}"
        );
    }

    #[test]
    fn nothing_is_set_for_the_balanced_profile() {
        let contestant = Contestant {
            peer: Peer::SteppeBalanced,
            version: String::new(),
            library: Some("/lib/a.so".into()),
        };
        assert_eq!(
            contestant.environment(),
            [("LD_PRELOAD", "/lib/a.so".into())]
        );
    }

    #[test]
    fn a_library_that_is_not_installed_is_named_with_its_package() {
        let error = debian("libnone.so.9", "libnone9").expect_err("nobody has it");
        let expected = "libnone.so.9 is not installed (Debian: apt-get install libnone9)";
        assert_eq!(error.to_string(), expected);
    }
}
