//! Hosts files and the hosts of the configuration, read into one table.

use std::io;
use std::path::PathBuf;

use steppe_mem::{Lease, OverBudget};
use steppe_net::Watch;

use super::charge::Charge;
use super::error::FilesError;
use super::lines::{for_each_line, open};
use crate::config::Hosts;
use crate::hosts::{HostTable, HostsBuilder, HostsError, HostsLine};
use crate::limits::LIST_LINES_SHOWN_MAX;
use crate::siphash::SipKey;

/// The local names in force.
#[derive(Debug)]
pub(crate) struct HostsInForce {
    pub(crate) table: HostTable,
    config: Hosts,
    watch: Watch,
    charge: Charge,
}

/// The reason why a file was not read to its end.
enum Stopped {
    Read(io::Error),
    Hosts(HostsError),
    Budget(OverBudget),
}

impl From<io::Error> for Stopped {
    fn from(error: io::Error) -> Self {
        Self::Read(error)
    }
}

impl HostsInForce {
    /// Reads the hosts files, and makes a table of them and of the records of the configuration. Blocks on
    /// reads from the disk.
    ///
    /// # Errors
    /// [`FilesError`].
    pub(crate) fn load(config: &Hosts, key: SipKey, lease: &Lease) -> Result<Self, FilesError> {
        let watch = Watch::new(config.files.clone());
        let mut charge = Charge::new(lease);
        let mut builder = HostsBuilder::default();
        // Records come first, so that the PTR record of an address has the name of the configuration.
        for (name, record) in &config.records {
            let added = builder.add(name, record);
            added.map_err(|cause| FilesError::Hosts {
                place: PathBuf::from("dns.hosts.records"),
                cause,
            })?;
        }
        for path in &config.files {
            let mut malformed = 0;
            let read = open(path).map_err(Stopped::Read).and_then(|file| {
                for_each_line(file, |at, line| {
                    let found = builder.line(line).map_err(Stopped::Hosts)?;
                    if found == HostsLine::Malformed {
                        malformed += 1;
                        if malformed <= LIST_LINES_SHOWN_MAX {
                            let place = format!("{}:{at}", path.display());
                            tracing::warn!(place, "malformed hosts line ignored");
                        }
                    }
                    charge.cover(builder.bytes()).map_err(Stopped::Budget)
                })
            });
            let file = path.clone();
            read.map_err(|stopped| match stopped {
                Stopped::Read(cause) => FilesError::Read { file, cause },
                Stopped::Hosts(cause) => FilesError::Hosts { place: file, cause },
                Stopped::Budget(cause) => cause.into(),
            })?;
        }
        // For a moment, names are in memory twice: in the builder and in the table.
        charge.cover(2 * builder.bytes())?;
        let table = builder.finish(key);
        charge.shrink(table.bytes());
        Ok(Self {
            table,
            config: config.clone(),
            watch,
            charge,
        })
    }

    /// The most bytes that were charged while the files were read.
    pub(crate) fn peak_bytes(&self) -> u64 {
        self.charge.peak() as u64
    }

    /// True if the table was made of this configuration, and its files have not changed since.
    pub(crate) fn is_of(&self, config: &Hosts) -> bool {
        self.config == *config && self.watch.is_current()
    }

    /// The configuration that the table was made of.
    pub(crate) fn config(&self) -> &Hosts {
        &self.config
    }

    /// The watch that notices changes of the files since they were read.
    pub(crate) fn watch(&self) -> Watch {
        self.watch.clone()
    }
}
