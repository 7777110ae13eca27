//! Address of a cluster member.

use std::fmt;
use std::str::FromStr;

use hyper::Uri;

/// URL of a cluster member, such as `http://127.0.0.1:2379`; `https` for TLS.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Endpoint {
    is_tls: bool,
    /// Host name or IP address, without brackets.
    host: String,
    port: u16,
}

/// The reason why a text is not an [`Endpoint`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum EndpointError {
    /// The text is not an `http` or `https` URL with a host.
    #[error("not a URL such as \"http://127.0.0.1:2379\"")]
    Url,
    /// The URL contains a user.
    #[error("etcd users and passwords are not supported")]
    User,
    /// The URL has a path or a query.
    #[error("a path after the port is not allowed")]
    Path,
}

/// Default port of etcd for clients.
const PORT: u16 = 2379;

impl Endpoint {
    pub(crate) fn is_tls(&self) -> bool {
        self.is_tls
    }

    pub(crate) fn host(&self) -> &str {
        &self.host
    }

    pub(crate) fn port(&self) -> u16 {
        self.port
    }

    /// Value of the `Host` field: host and port, with brackets around an IPv6 address.
    pub(crate) fn authority(&self) -> String {
        match self.host.contains(':') {
            true => format!("[{}]:{}", self.host, self.port),
            false => format!("{}:{}", self.host, self.port),
        }
    }
}

impl FromStr for Endpoint {
    type Err = EndpointError;

    fn from_str(text: &str) -> Result<Self, EndpointError> {
        let url: Uri = text.parse().map_err(|_| EndpointError::Url)?;
        let is_tls = match url.scheme_str() {
            Some("http") => false,
            Some("https") => true,
            _ => return Err(EndpointError::Url),
        };
        let authority = url.authority().ok_or(EndpointError::Url)?;
        if authority.as_str().contains('@') {
            return Err(EndpointError::User);
        }
        if url
            .path_and_query()
            .is_some_and(|path| path.as_str() != "/")
        {
            return Err(EndpointError::Path);
        }
        let host = authority.host();
        let bare = host
            .strip_prefix('[')
            .and_then(|host| host.strip_suffix(']'))
            .unwrap_or(host);
        if bare.is_empty() {
            return Err(EndpointError::Url);
        }
        Ok(Self {
            is_tls,
            host: bare.to_owned(),
            port: authority.port_u16().unwrap_or(PORT),
        })
    }
}

impl fmt::Display for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let scheme = if self.is_tls { "https" } else { "http" };
        write!(f, "{scheme}://{}", self.authority())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn urls_are_read_and_others_refused_by_name() {
        let shown = |text: &str| {
            text.parse::<Endpoint>()
                .map(|endpoint| endpoint.to_string())
        };
        for (text, expected) in [
            ("http://127.0.0.1:2379", "http://127.0.0.1:2379"),
            ("https://etcd.example/", "https://etcd.example:2379"),
            ("http://[::1]:4001", "http://[::1]:4001"),
        ] {
            assert_eq!(shown(text).as_deref(), Ok(expected));
        }
        for (text, expected) in [
            ("127.0.0.1:2379", EndpointError::Url),
            ("etcd", EndpointError::Url),
            ("", EndpointError::Url),
            ("ftp://etcd", EndpointError::Url),
            ("http://root:secret@etcd:2379", EndpointError::User),
            ("http://etcd:2379/v3", EndpointError::Path),
            ("http://etcd:2379/?a", EndpointError::Path),
        ] {
            assert_eq!(shown(text), Err(expected), "{text}");
        }
    }
}
