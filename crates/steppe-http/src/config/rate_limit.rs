//! How many requests there may be, and where they are counted.

use std::fmt;
use std::time::Duration;

use crate::field::is_token;

/// How many requests of each key there may be: in a time, at once, or both.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RateLimit {
    /// What `RateLimit` fields call it: the filter's name.
    pub name: String,
    /// How fast they may come; `None`: at any rate.
    pub rate: Option<Rate>,
    /// How many may be in flight; `None`: any number.
    pub concurrent: Option<u32>,
    /// Whose requests are counted together.
    pub key: RateKey,
    /// Leading bits of an address that count, of IPv4 and of IPv6.
    pub prefix: (u8, u8),
    /// Keys that are remembered.
    pub entries: usize,
    /// What shares the rate among nodes; `None`: it is this node's.
    pub store: Option<RateStore>,
}

/// A token bucket.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rate {
    /// Requests in [`Rate::per`]. 1 to 1,000,000.
    pub requests: u32,
    /// What they are counted in.
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

/// Whose requests are counted together.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RateKey {
    /// Those of a client's network.
    Ip,
    /// Those with one value of a field, its name in lower case.
    Header(String),
    /// Those with one value of a claim of their token.
    Claim(String),
    /// Those with API keys of one name.
    ApiKey,
    /// All of the route.
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
