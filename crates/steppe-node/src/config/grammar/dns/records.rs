//! Strings of what the DNS forwarder decides by: records that are made here, and clients' ids.

use steppe_dns::client::{ClientId, ClientIdError};
use steppe_dns::hosts::{RecordData, RecordDataError};

use crate::config::grammar::{Read, Refusal};
use crate::config::mistake::shown;

/// `192.0.2.1`, `MX 10 mail.example.org`.
pub(in crate::config) fn dns_record(text: &str) -> Read<RecordData> {
    text.parse().map_err(|error: RecordDataError| {
        let message = format!("`{}` is no record", shown(text));
        Refusal::new(message).help(error.to_string())
    })
}

/// `kids-tablet`.
pub(in crate::config) fn dns_client_id(text: &str) -> Read<ClientId> {
    text.parse().map_err(|error: ClientIdError| {
        let message = format!("`{}` is no client's id", shown(text));
        Refusal::new(message).help(error.to_string())
    })
}
