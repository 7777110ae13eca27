//! What the access log is told about an exchange that has ended.

use std::net::IpAddr;
use std::time::Duration;

use super::record::Record;
use crate::forwarded::Peer;
use crate::metrics::CloseReason;

/// An exchange that is over.
#[derive(Debug)]
pub(crate) struct Ended<'a> {
    pub(crate) peer: &'a Peer,
    /// As far as trusted proxies vouch for it.
    pub(crate) client: IpAddr,
    /// `None` where the request could not be read.
    pub(crate) record: Option<Record>,
    pub(crate) status: u16,
    /// Content, without heads and chunk sizes.
    pub(crate) sent_bytes: u64,
    pub(crate) received_bytes: u64,
    pub(crate) duration: Duration,
    pub(crate) route: Option<&'a str>,
    pub(crate) upstream: Option<&'a str>,
    /// The server that was asked last.
    pub(crate) server: Option<&'a str>,
    /// Why it ended before its time.
    pub(crate) reason: Option<CloseReason>,
}
