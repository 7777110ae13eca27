//! Rate limits: requests in a time or in flight, their key, and the store that shares them.

use std::fmt;
use std::time::Duration;

use crate::field::is_token;

/// A limit on the requests of each key: in a time, in flight, or both.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RateLimit {
    /// The filter's name, as `RateLimit` fields have it.
    pub name: String,
    /// The token bucket of each key; `None`: any rate.
    pub rate: Option<Rate>,
    /// The maximum in flight; `None`: no limit.
    pub concurrent: Option<u32>,
    /// The key by which requests are counted together.
    pub key: RateKey,
    /// Leading bits of an address that count, of IPv4 and of IPv6.
    pub prefix: (u8, u8),
    /// Keys that are remembered at most.
    pub entries: usize,
    /// The store that shares the rate among nodes; `None`: each node counts for itself.
    pub store: Option<RateStore>,
}

/// A token bucket.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rate {
    /// Requests in [`Rate::per`]. 1 to 1,000,000.
    pub requests: u32,
    /// The time in which requests are counted.
    pub per: Duration,
    /// Requests that may come at once.
    pub burst: u32,
}

/// A database of Valkey or Redis.
#[derive(Clone)]
pub struct RateStore {
    url: String,
    client: redis::Client,
}

impl RateStore {
    /// `redis://HOST:PORT/DATABASE`, with a user and a password or without; `None`: it is none.
    #[must_use]
    pub fn parse(url: &str) -> Option<Self> {
        let client = redis::Client::open(url).ok();
        let client = client.filter(|_| url.starts_with("redis://"))?;
        Some(Self {
            url: url.to_owned(),
            client,
        })
    }

    pub(crate) fn client(&self) -> &redis::Client {
        &self.client
    }
}

impl PartialEq for RateStore {
    fn eq(&self, other: &Self) -> bool {
        self.url == other.url
    }
}

impl Eq for RateStore {}

/// A password may stand in it.
impl fmt::Debug for RateStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("RateStore")
    }
}

/// The key by which requests are counted together.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RateKey {
    /// The client's network.
    Ip,
    /// The value of a field, its name in lower case.
    Header(String),
    /// The value of a claim of the token.
    Claim(String),
    /// The name of the API key.
    ApiKey,
    /// None: all requests of the route.
    Route,
}

impl RateKey {
    /// `ip`, `route`, `api-key`, `header:NAME` or `jwt:CLAIM`.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        match text {
            "ip" => Some(Self::Ip),
            "route" => Some(Self::Route),
            "api-key" => Some(Self::ApiKey),
            _ => match text.split_once(':')? {
                ("header", name) if is_token(name.as_bytes()) => {
                    Some(Self::Header(name.to_ascii_lowercase()))
                }
                ("jwt", claim) if !claim.is_empty() => Some(Self::Claim(claim.to_owned())),
                _ => None,
            },
        }
    }
}
