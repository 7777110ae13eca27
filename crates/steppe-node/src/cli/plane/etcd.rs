//! Workers that commands discover in etcd, or announce there.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use steppe_etcd::limits::ENDPOINTS_MAX;
use steppe_plane::Directory;

/// The place of announced workers in etcd: `etcd://HOST:PORT/PREFIX`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct EtcdAddress(Directory);

/// The schemes of addresses in etcd, each with the scheme of its members.
const SCHEMES: [(&str, &str); 2] = [("etcd://", "http"), ("etcds://", "https")];

/// The default lease of workers.
const LEASE: Duration = Duration::from_secs(10);

/// The default prefix.
const PREFIX: &str = "/steppe";

impl EtcdAddress {
    /// True if `text` has the scheme of such an address.
    pub(super) fn is_meant(text: &str) -> bool {
        SCHEMES.iter().any(|(scheme, _)| text.starts_with(scheme))
    }

    /// The directory, with this lease for its workers.
    pub(super) fn directory(&self, lease: Option<Duration>) -> Directory {
        Directory {
            lease: lease.unwrap_or(LEASE),
            ..self.0.clone()
        }
    }
}

impl FromStr for EtcdAddress {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let found = SCHEMES
            .iter()
            .find_map(|(scheme, members)| text.strip_prefix(scheme).map(|rest| (rest, *members)));
        let Some((rest, scheme)) = found else {
            return Err("expected etcd://HOST:PORT/PREFIX".to_owned());
        };
        let (members, prefix) = match rest.find('/') {
            Some(at) if at + 1 < rest.len() => rest.split_at(at),
            at => (&rest[..at.unwrap_or(rest.len())], PREFIX),
        };
        let endpoints = members.split(',').map(|member| {
            let endpoint = format!("{scheme}://{member}").parse();
            endpoint.map_err(|error| format!("{error}"))
        });
        let endpoints: Vec<_> = endpoints.collect::<Result<_, _>>()?;
        if endpoints.len() > ENDPOINTS_MAX {
            return Err(format!("more than {ENDPOINTS_MAX} endpoints"));
        }
        Ok(Self(Directory {
            endpoints,
            prefix: prefix.to_owned(),
            lease: LEASE,
        }))
    }
}

impl fmt::Display for EtcdAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let members: Vec<_> = self.0.endpoints.iter().map(ToString::to_string).collect();
        write!(
            f,
            "etcd at {}, prefix {}",
            members.join(", "),
            self.0.prefix
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn members_and_the_prefix_are_read() {
        let shown = |text: &str| text.parse().map(|address: EtcdAddress| address.to_string());
        for (text, expected) in [
            ("etcd://a:2379/edge", "etcd at http://a:2379, prefix /edge"),
            ("etcd://a", "etcd at http://a:2379, prefix /steppe"),
            ("etcd://a/", "etcd at http://a:2379, prefix /steppe"),
            (
                "etcds://a,b:1/x/y",
                "etcd at https://a:2379, https://b:1, prefix /x/y",
            ),
        ] {
            assert_eq!(shown(text).as_deref(), Ok(expected));
        }
        for text in [
            "127.0.0.1:7700",
            "etcd://",
            "etcd://a,,b",
            "etcd://root:secret@a",
        ] {
            let refused = shown(text).expect_err(text);
            assert!(!refused.contains("secret"), "{refused}");
        }
    }
}
