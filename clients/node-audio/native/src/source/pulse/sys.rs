//! libpulse, loaded at run time: the parts of its asynchronous API that capture needs.
//!
//! One thread runs the main loop, so callbacks run inside [`Connection::turn`]; they note the event
//! and do nothing else. Declarations follow libpulse's headers of version 16; each structure has only
//! the fields up to the last one that is read, which the ABI keeps.
#![expect(unsafe_code, reason = "libpulse is C")]

mod abi;
mod connection;
mod kept;
mod positions;
mod query;
mod stream;

pub use connection::{Change, Connection, Fault};
pub use kept::Fragment;
pub use query::{Playing, ServerDefaults, SourceEntry};
pub use stream::{Recording, Request, Timing};
