//! The parts of a request that routing reads.

use steppe_net::ListenAddress;
use steppe_net::tls::x509::Summary;

use crate::config::ListenerRoutes;

/// The parts of a request that routes are matched against.
#[derive(Clone, Copy)]
pub struct RouteQuery<'a> {
    /// Without a port, in any case; empty when the request names none.
    pub host: &'a [u8],
    /// In normal form, with its `;parameters`: [`crate::path::normalize`].
    pub path: &'a [u8],
    /// Case-sensitive (RFC 9110 §9.1).
    pub method: &'a [u8],
    /// The method that a CORS preflight asks about; `None`: it is none.
    pub preflight: Option<&'a [u8]>,
    /// The query, behind the first `?` of the target.
    pub query: Option<&'a [u8]>,
    /// The request's fields.
    pub fields: &'a dyn FieldLookup,
    /// The listener that it came to.
    pub listener: &'a ListenAddress,
    /// The routes of that listener.
    pub routes: ListenerRoutes,
    /// The client's certificate, if it sent one.
    pub client_cert: Option<&'a Summary>,
}

/// Finds field lines by name.
pub trait FieldLookup {
    /// Calls `with` with the value of each field line called `name`, which is in lower case, in
    /// their order. Lines are not split at commas.
    fn each_value(&self, name: &str, with: &mut dyn FnMut(&[u8]));
}
