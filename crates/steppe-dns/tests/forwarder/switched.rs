//! Servers that fall silent, and the stale answers that clients get meanwhile.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::Duration;

use steppe_dns::config::{ServeStale, Stale};

use crate::server::{Asked, Server, answered};

const A: u16 = 1;

/// A server that can be made silent.
pub struct Switched {
    pub server: Server,
    is_silent: Arc<AtomicBool>,
    ttl: Arc<AtomicU32>,
}

impl Switched {
    /// A server of one address for each name.
    pub fn start(ttl: u32) -> Self {
        Self::start_with(ttl, |asked, ttl| {
            answered(&asked.bytes, 0, &[(A, ttl, &[192, 0, 2, 7])])
        })
    }

    /// A server that responds as `say` does, with the TTL of the moment.
    pub fn start_with(
        ttl: u32,
        say: impl Fn(&Asked, u32) -> Vec<u8> + Send + Sync + 'static,
    ) -> Self {
        let ttl = Arc::new(AtomicU32::new(ttl));
        let is_silent = Arc::new(AtomicBool::new(false));
        let server = {
            let (is_silent, ttl) = (Arc::clone(&is_silent), Arc::clone(&ttl));
            Server::start(move |asked| match is_silent.load(Ordering::Acquire) {
                true => Vec::new(),
                false => vec![say(asked, ttl.load(Ordering::Acquire))],
            })
        };
        Self {
            server,
            is_silent,
            ttl,
        }
    }

    pub fn switch_off(&self) {
        self.is_silent.store(true, Ordering::Release);
    }

    /// Answers again, with a long TTL from now on.
    pub fn switch_on(&self) {
        self.ttl.store(3600, Ordering::Release);
        self.is_silent.store(false, Ordering::Release);
    }
}

/// Stale answers for an hour, to clients that have waited for so long.
pub fn serve_stale(after: Duration) -> ServeStale {
    ServeStale {
        up_to: Duration::from_secs(3600),
        after,
        only: Stale::Positive,
    }
}
