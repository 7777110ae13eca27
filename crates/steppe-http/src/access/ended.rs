//! The data of an ended exchange that the access log formats.

use std::net::IpAddr;
use std::time::Duration;

use steppe_net::tls::Agreed;

use super::record::Record;
use crate::filter::ServedFrom;
use crate::forwarded::Peer;
use crate::metrics::CloseReason;

/// An exchange that ended.
#[derive(Debug)]
pub(crate) struct Ended<'a> {
    pub(crate) peer: &'a Peer,
    /// The client's address, by trusted proxies' forwarding fields.
    pub(crate) client: IpAddr,
    /// The negotiated TLS session. `None`: no TLS.
    pub(crate) tls: Option<&'a Agreed>,
    /// `None` if the request's head could not be parsed.
    pub(crate) record: Option<Record>,
    pub(crate) status: u16,
    /// Bytes of content, without heads and chunked framing.
    pub(crate) sent_bytes: u64,
    pub(crate) received_bytes: u64,
    pub(crate) duration: Duration,
    pub(crate) route: Option<&'a str>,
    pub(crate) upstream: Option<&'a str>,
    /// The server of the last attempt.
    pub(crate) server: Option<&'a str>,
    /// The filter that answered.
    pub(crate) filter: Option<&'a str>,
    /// Why it was aborted.
    pub(crate) reason: Option<CloseReason>,
    /// Where a cache had the response from. `None`: no cache had it.
    pub(crate) served_from: Option<ServedFrom>,
}
