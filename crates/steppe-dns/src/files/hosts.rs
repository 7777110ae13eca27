//! Files of hosts, and names of the configuration: read into one table.

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

/// Names that are answered here.
#[derive(Debug)]
pub(crate) struct HostsInForce {
    pub(crate) table: HostTable,
    config: Hosts,
    watch: Watch,
    charge: Charge,
}

/// Why a file was not read to its end.
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
    /// Reads the files of hosts, and makes a table of them and of the records of the configuration. It
    /// reads from a disk.
    ///
    /// # Errors
    /// [`FilesError`].
    pub(crate) fn load(config: &Hosts, key: SipKey, lease: &Lease) -> Result<Self, FilesError> {
        let watch = Watch::new(config.files.clone());
        let mut charge = Charge::new(lease);
        let mut builder = HostsBuilder::default();
        // First, so that an address leads back to the name that the configuration gives it.
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
        // Once collected and once in the table, for a moment.
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

    /// Bytes that they took of the budget while they were read.
    pub(crate) fn peak_bytes(&self) -> u64 {
        self.charge.peak() as u64
    }

    /// Whether these are the names, and their files are as they were.
    pub(crate) fn is_of(&self, config: &Hosts) -> bool {
        self.config == *config && self.watch.is_current()
    }

    /// What they were read by.
    pub(crate) fn config(&self) -> &Hosts {
        &self.config
    }

    /// What sees that a file is another one than was read.
    pub(crate) fn watch(&self) -> Watch {
        self.watch.clone()
    }
}
