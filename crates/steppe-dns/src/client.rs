//! Clients: the address and the ID that rules match.

use std::fmt;
use std::net::IpAddr;
use std::str::FromStr;

use crate::limits::CLIENT_ID_BYTES_MAX;

/// A client.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Client {
    /// The address of the client; one of IPv4 is never in its IPv6-mapped form.
    pub address: IpAddr,
    /// The ID that the client gives. `None`: it gives none, as always over UDP and TCP.
    pub id: Option<ClientId>,
}

/// The ID that a client gives: the first label of its TLS server name, or the last part of the path of its
/// HTTPS requests. Lower-case letters, digits and hyphens, up to [`CLIENT_ID_BYTES_MAX`].
///
/// An ID is not a credential: any client that knows one can use it. It serves to tell the devices of a
/// household apart.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct ClientId {
    bytes: [u8; CLIENT_ID_BYTES_MAX],
    len: u8,
}

/// The text is no client ID.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("not 1 to {CLIENT_ID_BYTES_MAX} letters, digits and hyphens")]
pub struct ClientIdError;

impl Client {
    /// A client without an ID.
    #[must_use]
    pub fn at(address: IpAddr) -> Self {
        Self {
            address: address.to_canonical(),
            id: None,
        }
    }
}

impl ClientId {
    /// Reads an ID from bytes that a client sent, and makes it lower case.
    ///
    /// # Errors
    /// [`ClientIdError`].
    pub fn from_bytes(id: &[u8]) -> Result<Self, ClientIdError> {
        let is_label = |byte: &u8| byte.is_ascii_alphanumeric() || *byte == b'-';
        if id.is_empty() || !id.iter().all(is_label) {
            return Err(ClientIdError);
        }
        let mut bytes = [0; CLIENT_ID_BYTES_MAX];
        bytes
            .get_mut(..id.len())
            .ok_or(ClientIdError)?
            .copy_from_slice(id);
        bytes.make_ascii_lowercase();
        let len = u8::try_from(id.len()).map_err(|_| ClientIdError)?;
        Ok(Self { bytes, len })
    }

    /// The ID as text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        std::str::from_utf8(&self.bytes[..usize::from(self.len)]).unwrap_or_default()
    }
}

impl FromStr for ClientId {
    type Err = ClientIdError;

    fn from_str(text: &str) -> Result<Self, ClientIdError> {
        Self::from_bytes(text.as_bytes())
    }
}

impl fmt::Display for ClientId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl fmt::Debug for ClientId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ClientId({self})")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_is_a_label_in_lower_case() {
        let id: ClientId = "Kids-Tablet2".parse().expect("an id");
        assert_eq!(id.as_str(), "kids-tablet2");
        assert_eq!("kids-tablet2".parse(), Ok(id));
        let longest = "a".repeat(CLIENT_ID_BYTES_MAX);
        assert_eq!(
            longest.parse::<ClientId>().map(|id| id.to_string()),
            Ok(longest.clone())
        );
        for wrong in ["", "a.b", "a b", "ä", &format!("{longest}a")] {
            assert_eq!(wrong.parse::<ClientId>(), Err(ClientIdError), "{wrong}");
        }
    }

    #[test]
    fn an_address_of_ipv4_is_one() {
        let client = Client::at("::ffff:10.0.0.1".parse().expect("an address"));
        assert_eq!(client.address, IpAddr::from([10, 0, 0, 1]));
    }
}
