//! Rules of a relay: the services that peers may offer and call.

use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};

use bytes::Bytes;
use steppe_plane::config::{Peers, Rule, Services};
use steppe_plane::frame::{FrameHeader, FrameType, HEADER_BYTES, Head, flag};
use steppe_plane::{Ask, Caller, Status, WorkerBuilder, WorkerStatus};
use tokio::sync::watch;

use crate::frames::request;
use crate::lies::hello;
use crate::relay::{MIB, PATIENCE, config, site, until};

/// A rule for all peers in this network.
fn rule(network: &str, offer: &[&str], call: &[&str]) -> Rule {
    let services = |names: &[&str]| names.iter().map(|name| Services::new(name)).collect();
    Rule {
        peers: Peers::Network(network.parse().expect("a network")),
        offer: services(offer),
        call: services(call),
    }
}

fn serve(builder: WorkerBuilder, service: &str) -> WorkerBuilder {
    builder.unary(service, 100, |body| async move { Ok(body) })
}

async fn status(caller: &Caller, service: &str) -> Status {
    let called = caller.unary(&Ask::new(service), Bytes::new()).await;
    called.map_or_else(|failure| failure.status, |_| Status::Ok)
}

#[tokio::test]
async fn the_first_rule_decides_and_the_end_denies() {
    let site = site(64 * MIB, config()).await;
    let (_embed, _) = site
        .worker(16 * MIB, |builder| serve(serve(builder, "embed"), "rank/a"))
        .await;
    site.has("embed", 1).await;
    let (caller, _) = site.caller(16 * MIB).await;
    for (rules, embed, rank) in [
        (vec![], Status::Ok, Status::Ok),
        (
            vec![rule("127.0.0.0/8", &["*"], &["embed"])],
            Status::Ok,
            Status::Denied,
        ),
        (
            vec![
                rule("127.0.0.1/32", &["embed", "rank/*"], &["rank/*"]),
                rule("0.0.0.0/0", &["*"], &["*"]),
            ],
            Status::Denied,
            Status::Ok,
        ),
    ] {
        site.relay.set_rules(rules);
        assert_eq!(status(&caller, "embed").await, embed);
        assert_eq!(status(&caller, "rank/a").await, rank);
    }
    // A peer that no rule matches may do nothing.
    site.relay
        .set_rules(vec![rule("10.0.0.0/8", &["*"], &["*"])]);
    assert_eq!(status(&caller, "embed").await, Status::Denied);
    site.has("embed", 0).await;
    // The worker reconnects by itself.
    site.relay.set_rules(Vec::new());
    site.has("embed", 1).await;
    assert_eq!(status(&caller, "embed").await, Status::Ok);
}

/// A change of rules resets the open calls that are no longer allowed, and no others.
#[tokio::test]
async fn a_change_ends_what_is_no_longer_allowed() {
    let site = site(64 * MIB, config()).await;
    let (done, is_done) = watch::channel(false);
    let hold = |builder: WorkerBuilder, service: &str| {
        let is_done = is_done.clone();
        builder.unary(service, 100, move |body: Bytes| {
            let mut is_done = is_done.clone();
            async move {
                is_done.wait_for(|done| *done).await.expect("it is told");
                Ok(body)
            }
        })
    };
    let (_worker, _) = site
        .worker(16 * MIB, |builder| hold(hold(builder, "stays"), "goes"))
        .await;
    site.has("goes", 1).await;
    let (caller, _) = site.caller(16 * MIB).await;
    let call = |service: &'static str| {
        let caller = caller.clone();
        tokio::spawn(async move { status(&caller, service).await })
    };
    let (stays, goes) = (call("stays"), call("goes"));
    let running = || {
        let report = site.relay.report();
        let workers = report.services.iter().flat_map(|service| &service.workers);
        workers.map(|worker| worker.calls).sum::<u32>()
    };
    until(|| running() == 2).await;
    site.relay
        .set_rules(vec![rule("127.0.0.0/8", &["*"], &["stays"])]);
    assert_eq!(goes.await.expect("it ends"), Status::Denied);
    until(|| running() == 1).await;
    done.send_replace(true);
    assert_eq!(stays.await.expect("it ends"), Status::Ok);
    let report = site.relay.report();
    let denied = report
        .calls
        .finished
        .iter()
        .find(|(status, _)| *status == Status::Denied);
    assert_eq!(denied.map(|(_, count)| *count), Some(1));
}

/// The frames that a relay sends until it closes the connection, or has drained.
fn heard(address: SocketAddr, sent: &[u8]) -> Vec<FrameHeader> {
    let mut socket = TcpStream::connect(address).expect("it listens");
    socket.set_read_timeout(Some(PATIENCE)).expect("is set");
    socket.write_all(sent).expect("it reads");
    let mut heard = Vec::new();
    let mut header = [0; HEADER_BYTES];
    while socket.read_exact(&mut header).is_ok() {
        let header = FrameHeader::read(&header);
        let mut payload = vec![0; header.len as usize];
        socket.read_exact(&mut payload).expect("it is whole");
        heard.push(header);
        if header.frame_type == FrameType::GOAWAY && header.has(flag::DRAINED) {
            break;
        }
    }
    heard
}

/// The worker receives GOAWAY with the code of protocol.md, and no ACK of its PING.
#[tokio::test]
async fn a_worker_that_may_not_offer_is_told_so() {
    let site = site(64 * MIB, config()).await;
    site.relay
        .set_rules(vec![rule("127.0.0.0/8", &["embed"], &[])]);
    let entry = b"\x00\x07\x01\x00\x04echo";
    let mut services = FrameHeader::new(FrameType::SERVICES, 0);
    services.len = u32::try_from(entry.len()).expect("short");
    let ping = FrameHeader::new(FrameType::PING, 0);
    let sent = [&hello()[..], &services.to_bytes(), entry, &ping.to_bytes()].concat();
    let address = site.address;
    let heard = tokio::task::spawn_blocking(move || heard(address, &sent));
    let heard = heard.await.expect("no panic");
    let told = heard
        .iter()
        .map(|frame| (frame.frame_type, frame.code, frame.flags));
    let told: Vec<_> = told.skip(1).collect();
    assert_eq!(told, [(FrameType::GOAWAY, 13, 0)]);
    // A worker of the crate does not report *serving*.
    let builder = steppe_plane::Worker::builder(&crate::relay::memory(&site.budget));
    let registered = serve(builder, "echo").build().register(address.to_string());
    let registered = registered.expect("a service that can be named");
    for _ in 0..50 {
        assert_ne!(registered.status(), WorkerStatus::Serving);
        tokio::time::sleep(std::time::Duration::from_millis(2)).await;
    }
    site.relay
        .set_rules(vec![rule("127.0.0.0/8", &["echo"], &[])]);
    registered.reaches(WorkerStatus::Serving).await;
}

/// A call that is open at the deadline of a drain is reset, as UNPROCESSED if no worker got it.
#[tokio::test]
async fn what_is_open_after_a_drain_is_told_so() {
    let site = site(64 * MIB, config()).await;
    let (_worker, _) = site
        .worker(16 * MIB, |builder| {
            builder.stream("busy", 1, |_| async {
                std::future::pending::<()>().await;
                Ok(())
            })
        })
        .await;
    site.has("busy", 1).await;
    let mut sent = hello();
    sent.extend(request(1, &Head::request("busy")));
    sent.extend(request(3, &Head::request("busy")));
    let address = site.address;
    let heard = tokio::task::spawn_blocking(move || heard(address, &sent));
    until(|| {
        let report = site.relay.report();
        report.queue.calls == 1 && report.services[0].workers[0].calls == 1
    })
    .await;
    site.relay.drain();
    site.relay.cut();
    tokio::time::timeout(PATIENCE, site.relay.drained())
        .await
        .expect("nothing is left");
    let heard = heard.await.expect("no panic");
    let mut resets: Vec<_> = heard
        .iter()
        .filter(|frame| frame.frame_type == FrameType::RESET)
        .map(|frame| (frame.stream, frame.code, frame.flags & flag::UNPROCESSED))
        .collect();
    resets.sort_unstable();
    let draining = Status::Draining.code();
    assert_eq!(resets, [(1, draining, 0), (3, draining, flag::UNPROCESSED)]);
    let last = heard.last().expect("frames");
    assert_eq!(
        (last.frame_type, last.code, last.flags),
        (FrameType::GOAWAY, 0, flag::DRAINED)
    );
}
