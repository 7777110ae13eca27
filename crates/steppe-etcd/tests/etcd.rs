//! Lists, changes, leases, an outage and compaction, against a real etcd.

#![allow(clippy::disallowed_methods, reason = "tests read the clock")]

use std::net::{Ipv4Addr, SocketAddr};
use std::time::{Duration, Instant};

use steppe_etcd::{Change, Error, Etcd, Keys, Lease};
use steppe_testkit::EtcdServer;
use tokio::time::{sleep, timeout};

const PATIENCE: Duration = Duration::from_secs(30);
/// Time of a lease whose keys are written again. A deleted key comes back within a third of it.
const LEASE: Duration = Duration::from_secs(10);
/// Time of a lease whose expiry is waited for.
const SHORT_LEASE: Duration = Duration::from_secs(4);

fn etcd(urls: &[&str]) -> Etcd {
    Etcd::new(urls.iter().map(|url| url.parse().expect("a URL")))
}

async fn next(keys: &mut Keys) -> Change {
    let next = timeout(PATIENCE, keys.next()).await;
    next.expect("a change in time").expect("etcd answers")
}

/// Waits for a complete list of the keys.
async fn listed(keys: &mut Keys) -> Vec<String> {
    let end = Instant::now() + PATIENCE;
    loop {
        match timeout(PATIENCE, keys.next()).await.expect("in time") {
            Ok(Change::All(all)) => return all,
            Ok(_) => {}
            Err(error) => {
                assert!(Instant::now() < end, "{error}");
                sleep(Duration::from_millis(50)).await;
            }
        }
    }
}

#[tokio::test]
async fn what_is_there_and_what_changes_is_told() {
    let server = EtcdServer::start();
    server.ctl(["put", "/steppe/a", ""]);
    server.ctl(["put", "/steppf", ""]);
    let mut keys = Keys::new(&etcd(&[&server.url()]), "/steppe/", 100);
    assert_eq!(next(&mut keys).await, Change::All(vec!["/steppe/a".into()]));
    server.ctl(["put", "/steppe/b", "x"]);
    assert_eq!(next(&mut keys).await, Change::Put("/steppe/b".into()));
    server.ctl(["put", "/other", "x"]);
    server.ctl(["del", "/steppe/a"]);
    assert_eq!(next(&mut keys).await, Change::Deleted("/steppe/a".into()));
}

#[tokio::test]
async fn a_list_names_no_more_than_asked_for() {
    let server = EtcdServer::start();
    for key in ["/steppe/a", "/steppe/b", "/steppe/c"] {
        server.ctl(["put", key, ""]);
    }
    let mut keys = Keys::new(&etcd(&[&server.url()]), "/steppe/", 2);
    let first = vec!["/steppe/a".into(), "/steppe/b".into()];
    assert_eq!(next(&mut keys).await, Change::All(first));
}

#[tokio::test]
async fn changes_of_an_outage_come_with_the_next_list() {
    let mut server = EtcdServer::start();
    server.ctl(["put", "/steppe/a", ""]);
    let mut keys = Keys::new(&etcd(&[&server.url()]), "/steppe/", 100);
    assert_eq!(listed(&mut keys).await, ["/steppe/a"]);
    server.kill();
    let lost = timeout(PATIENCE, keys.next()).await.expect("it is seen");
    assert!(lost.is_err(), "{lost:?}");
    let refused = keys.next().await;
    assert!(matches!(refused, Err(Error::Connect(_))), "{refused:?}");
    server.restart();
    server.ctl(["put", "/steppe/b", ""]);
    let all = listed(&mut keys).await;
    assert!(all.contains(&"/steppe/a".to_owned()), "{all:?}");
}

#[tokio::test]
async fn the_next_member_is_asked_where_one_is_gone() {
    let server = EtcdServer::start();
    server.ctl(["put", "/steppe/a", ""]);
    let nobody = SocketAddr::from((Ipv4Addr::LOCALHOST, 1));
    let etcd = etcd(&[&format!("http://{nobody}"), &server.url()]);
    let mut keys = Keys::new(&etcd, "/steppe/", 100);
    assert!(keys.next().await.is_err());
    assert_eq!(next(&mut keys).await, Change::All(vec!["/steppe/a".into()]));
}

#[tokio::test]
async fn measured_a_lease_keeps_its_keys_and_takes_them_along() {
    let server = EtcdServer::start();
    let etcd = etcd(&[&server.url()]);
    let mut keys = Keys::new(&etcd, "/steppe/", 100);
    assert_eq!(next(&mut keys).await, Change::All(Vec::new()));
    let lease = Lease::new(&etcd, vec!["/steppe/a".into()], SHORT_LEASE);
    timeout(PATIENCE, lease.kept())
        .await
        .expect("it is written");
    assert_eq!(next(&mut keys).await, Change::Put("/steppe/a".into()));
    // The lease outlives its first period.
    assert!(timeout(SHORT_LEASE * 2, keys.next()).await.is_err());
    lease.withdraw().await.expect("etcd is there");
    assert_eq!(next(&mut keys).await, Change::Deleted("/steppe/a".into()));
    // A lease whose owner is dropped expires.
    let lease = Lease::new(&etcd, vec!["/steppe/b".into()], SHORT_LEASE);
    assert_eq!(next(&mut keys).await, Change::Put("/steppe/b".into()));
    drop(lease);
    assert_eq!(next(&mut keys).await, Change::Deleted("/steppe/b".into()));
}

/// A deleted key comes back under the same lease. Existing keys are not written again: every watcher
/// would be notified.
#[tokio::test]
async fn a_key_that_was_deleted_is_written_again() {
    let server = EtcdServer::start();
    let etcd = etcd(&[&server.url()]);
    let mut keys = Keys::new(&etcd, "/steppe/", 100);
    assert_eq!(next(&mut keys).await, Change::All(Vec::new()));
    let both = ["/steppe/a", "/steppe/b"].map(String::from);
    let _lease = Lease::new(&etcd, both.to_vec(), LEASE);
    for key in &both {
        assert_eq!(next(&mut keys).await, Change::Put(key.clone()));
    }
    for key in &both {
        server.ctl(["del", key]);
        assert_eq!(next(&mut keys).await, Change::Deleted(key.clone()));
        assert_eq!(next(&mut keys).await, Change::Put(key.clone()));
    }
    let listed = server.ctl(["lease", "list"]);
    let id = listed.split_whitespace().last().expect("a lease");
    server.ctl(["lease", "revoke", id]);
    for key in &both {
        assert_eq!(next(&mut keys).await, Change::Deleted(key.clone()));
    }
}

#[tokio::test]
async fn a_lease_that_was_taken_away_is_written_again() {
    let server = EtcdServer::start();
    let etcd = etcd(&[&server.url()]);
    let mut keys = Keys::new(&etcd, "/steppe/", 100);
    assert_eq!(next(&mut keys).await, Change::All(Vec::new()));
    let _lease = Lease::new(&etcd, vec!["/steppe/a".into()], LEASE);
    assert_eq!(next(&mut keys).await, Change::Put("/steppe/a".into()));
    let listed = server.ctl(["lease", "list"]);
    let id = listed.split_whitespace().last().expect("a lease");
    server.ctl(["lease", "revoke", id]);
    assert_eq!(next(&mut keys).await, Change::Deleted("/steppe/a".into()));
    assert_eq!(next(&mut keys).await, Change::Put("/steppe/a".into()));
}
