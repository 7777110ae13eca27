//! The known workers, and those that are missing from the list since an outage.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use steppe_etcd::Change;

use crate::limits::{ADDRESS_BYTES_MAX, FOUND_WORKERS_MAX, SERVICE_BYTES_MAX};
use crate::relay::DialedWorker;

/// The known workers.
#[derive(Debug)]
pub(super) struct Known {
    /// Prefix of the workers' keys.
    folder: String,
    lease: Duration,
    /// Time at which a worker is forgotten, by address and service; `None` if the last list has it.
    seats: BTreeMap<(String, String), Option<Instant>>,
}

impl Known {
    pub(super) fn new(folder: String, lease: Duration) -> Self {
        Self {
            folder,
            lease,
            seats: BTreeMap::new(),
        }
    }

    /// Applies a change. True if the workers are to be reported.
    pub(super) fn learn(&mut self, change: Change, now: Instant) -> bool {
        match change {
            Change::All(keys) => {
                let until = now + self.lease;
                for over in self.seats.values_mut() {
                    over.get_or_insert(until);
                }
                for key in &keys {
                    self.put(key);
                }
                // Reported even without a new worker: callers wait for the first list.
                true
            }
            Change::Put(key) => self.put(&key),
            Change::Deleted(key) => {
                let seat = seat(&self.folder, &key);
                seat.is_some_and(|seat| self.seats.remove(&seat).is_some())
            }
        }
    }

    fn put(&mut self, key: &str) -> bool {
        let Some(seat) = seat(&self.folder, key) else {
            tracing::warn!(
                key,
                "malformed worker key in etcd: expected SERVICE/HOST:PORT"
            );
            return false;
        };
        if let Some(over) = self.seats.get_mut(&seat) {
            *over = None;
            return false;
        }
        if self.seats.len() >= FOUND_WORKERS_MAX {
            tracing::warn!(
                key,
                "more than {FOUND_WORKERS_MAX} workers in etcd: this one is ignored"
            );
            return false;
        }
        self.seats.insert(seat, None);
        true
    }

    /// The time at which the next worker is forgotten.
    pub(super) fn next_over(&self) -> Option<Instant> {
        self.seats.values().filter_map(|over| *over).min()
    }

    /// Forgets the workers whose time is over.
    pub(super) fn forget(&mut self, now: Instant) {
        self.seats
            .retain(|_, over| over.is_none_or(|over| over > now));
    }

    /// The workers: each address once, with its services.
    pub(super) fn workers(&self) -> Vec<DialedWorker> {
        let mut workers: Vec<DialedWorker> = Vec::new();
        for (address, service) in self.seats.keys() {
            match workers.last_mut().filter(|last| last.address == *address) {
                Some(last) => last.services.push(service.clone()),
                None => workers.push(DialedWorker {
                    address: address.clone(),
                    services: vec![service.clone()],
                }),
            }
        }
        workers
    }
}

/// Splits a key into address and service; `None` if it is malformed.
fn seat(folder: &str, key: &str) -> Option<(String, String)> {
    // A service may have slashes in its name; an address has none.
    let (service, address) = key.strip_prefix(folder)?.rsplit_once('/')?;
    let (host, port) = address.rsplit_once(':')?;
    let is_text = |text: &str, max| {
        (1..=max).contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_graphic())
    };
    let is_seat = is_text(service, SERVICE_BYTES_MAX)
        && is_text(host, ADDRESS_BYTES_MAX)
        && port.parse::<u16>().is_ok_and(|port| port > 0);
    is_seat.then(|| (address.to_owned(), service.to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    const LEASE: Duration = Duration::from_secs(10);

    fn known() -> Known {
        Known::new("/steppe/workers/".into(), LEASE)
    }

    fn all(seats: &[&str]) -> Change {
        let keys = seats.iter().map(|seat| format!("/steppe/workers/{seat}"));
        Change::All(keys.collect())
    }

    fn shown(known: &Known) -> Vec<String> {
        let workers = known.workers().into_iter();
        let shown =
            workers.map(|worker| format!("{} {}", worker.address, worker.services.join(" ")));
        shown.collect()
    }

    #[test]
    fn keys_name_services_and_addresses() {
        let mut known = known();
        let now = Instant::now();
        let seats = [
            "echo/10.0.0.7:7701",
            "a.Service/Method/10.0.0.7:7701",
            "echo/[::1]:7701",
            "echo",
            "echo/nowhere",
            "echo/host:0",
            "echo/host:70000",
            "/host:1",
            "two words/host:1",
        ];
        assert!(known.learn(all(&seats), now));
        assert_eq!(
            shown(&known),
            ["10.0.0.7:7701 a.Service/Method echo", "[::1]:7701 echo"]
        );
        assert!(!known.learn(Change::Put("/elsewhere/echo/a:1".into()), now));
        assert!(known.learn(Change::Put("/steppe/workers/echo/a:1".into()), now));
        assert!(!known.learn(Change::Put("/steppe/workers/echo/a:1".into()), now));
        assert!(known.learn(Change::Deleted("/steppe/workers/echo/a:1".into()), now));
        assert_eq!(known.workers().len(), 2);
    }

    #[test]
    fn who_is_missing_after_an_outage_has_a_lease_to_come_back() {
        let mut known = known();
        let start = Instant::now();
        known.learn(all(&["echo/a:1", "echo/b:1"]), start);
        assert_eq!(known.next_over(), None);
        known.learn(all(&[]), start);
        assert_eq!(shown(&known), ["a:1 echo", "b:1 echo"]);
        assert_eq!(known.next_over(), Some(start + LEASE));
        // A second outage does not extend the time.
        known.learn(all(&["echo/b:1"]), start + LEASE / 2);
        assert_eq!(known.next_over(), Some(start + LEASE));
        known.forget(start + LEASE);
        assert_eq!(shown(&known), ["b:1 echo"]);
        assert_eq!(known.next_over(), None);
    }

    #[test]
    fn there_are_no_more_than_the_limit() {
        let mut known = known();
        let now = Instant::now();
        for number in 0..=FOUND_WORKERS_MAX {
            known.learn(
                Change::Put(format!("/steppe/workers/echo/host:{}", number + 1)),
                now,
            );
        }
        assert_eq!(known.workers().len(), FOUND_WORKERS_MAX);
    }
}
