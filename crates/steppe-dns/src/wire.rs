//! Messages on the wire: views that copy nothing, and writers into a caller's buffer. Spec: RFC 1035.
//!
//! Invariant: reading takes work proportional to the bytes of a message, for any compression pointers, and
//! nothing here allocates.

mod body;
mod code;
mod edns;
mod error;
mod header;
mod message;
mod mnemonic;
mod name;
mod query;
mod rdata;
mod record;
mod reply;
mod response;
mod truncate;
mod type_name;
mod upstream_query;
mod write;

pub use body::{Body, Lifetime, TtlOffsets, TtlPolicy, age_ttls, apply_policy};
pub use code::{Class, ExtendedError, Opcode, Rcode, Rtype};
pub use edns::{ClientCookie, EdnsOptions, Opt, OptionCode, Subnet};
pub use error::WireError;
pub use header::{Flags, HEADER_BYTES, Header};
pub use message::{Message, Question, first_message};
pub use name::{CaseBits, Name, NameError, Steps, read_name, skip_name};
pub use query::{ClientQuery, Rejection, write_rejection};
pub use record::{Record, Section};
pub use reply::{Alias, LocalRecord, Padding, Reply, Transport};
pub use response::{Asked, Denial, Outcome, Response};
pub use truncate::truncate;
pub use upstream_query::UpstreamQuery;
pub use write::{Full, Writer};
