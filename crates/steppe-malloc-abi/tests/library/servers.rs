//! Real servers under their own load generators, with the library preloaded. Long tier only.

use std::process::Command;
use std::time::Duration;

use crate::support::server::{Nginx, Server, program};
use crate::support::{preloaded, run, run_within};
use steppe_testkit::{Wrk, heavy, is_left_to_long_tier, skip};

/// True if the test runs: in the long tier, if its programs are installed.
fn runs(test: &str, programs: &[&str]) -> bool {
    if is_left_to_long_tier(test) {
        return false;
    }
    let is_missing = |name: &&&str| {
        Command::new(program(name))
            .arg("--version")
            .output()
            .is_err()
    };
    if let Some(missing) = programs.iter().find(is_missing) {
        skip(test, &format!("{missing} is not installed"));
        return false;
    }
    true
}

#[test]
fn nginx_under_wrk() {
    if !runs("nginx_under_wrk", &["nginx", "wrk"]) {
        return;
    }
    let _one = heavy();
    let nginx = Nginx::start();
    for connections in [1, 64, 400] {
        let wrk = Wrk::new(&nginx.url("/page"), connections, 10);
        let output = wrk.args(["-H", "Accept-Encoding: gzip"]).run();
        assert!(output.requests > 1_000, "{}", output.text);
        assert_eq!((output.refused, output.errors), (0, 0), "{}", output.text);
    }
    nginx.has_library();
}

#[test]
fn redis_under_redis_benchmark() {
    if !runs(
        "redis_under_redis_benchmark",
        &["redis-server", "redis-benchmark"],
    ) {
        return;
    }
    let _one = heavy();
    // Saving forks, and the child reads all memory while the parent goes on.
    let mut redis = redis(&[
        "--save",
        "1 1",
        "--maxmemory",
        "200mb",
        "--maxmemory-policy",
        "allkeys-lru",
    ]);
    let port = redis.address().port().to_string();
    let kinds = "set,get,incr,lpush,rpush,lpop,rpop,sadd,hset,spop,zadd,zpopmin,lrange,mset";
    let mut benchmark = preloaded("redis-benchmark");
    benchmark
        .args([
            "-p", &port, "-q", "-c", "50", "-n", "100000", "-P", "8", "-r", "100000",
        ])
        .args(["-d", "500", "-t", kinds]);
    let ended = run_within(&mut benchmark, Duration::from_secs(600)).succeeded();
    assert!(ended.out.contains("MSET"), "{ended:#?}");
    for words in [
        &["-p", &port, "memory", "doctor"][..],
        &["-p", &port, "ping"],
    ] {
        let answer = run(preloaded("redis-cli").args(words)).succeeded();
        assert!(
            !answer.out.trim().is_empty() && !answer.out.contains("ERR"),
            "{answer:#?}"
        );
    }
    redis.has_library();
}

/// A preloaded Redis on a port and in a folder of its own.
fn redis(settings: &[&str]) -> Server {
    Server::start("malloc-redis", |folder, address| {
        let mut command = preloaded("redis-server");
        command
            .args([
                "--bind",
                "127.0.0.1",
                "--port",
                &address.port().to_string(),
                "--dir",
            ])
            .arg(folder)
            .args(settings);
        command
    })
}

/// Values of many sizes are set and deleted; then all are checked.
#[test]
fn redis_keeps_what_it_was_given() {
    if !runs(
        "redis_keeps_what_it_was_given",
        &["redis-server", "redis-cli"],
    ) {
        return;
    }
    let _one = heavy();
    let mut redis = redis(&["--save", ""]);
    let port = redis.address().port().to_string();
    let script = "for round = 1, 20 do for i = 1, 2000 do \
         redis.call('set', 'k' .. i, string.rep(tostring(i % 10), (i * 37 * round) % 9000)) \
         redis.call('append', 'k' .. i, 'end') end end \
         for i = 1, 2000 do local v = redis.call('get', 'k' .. i) \
         if v ~= string.rep(tostring(i % 10), (i * 37 * 20) % 9000) .. 'end' then return 'bad ' .. i end \
         end return 'kept'";
    let mut client = Command::new("redis-cli");
    let ended = run(client.args(["-p", &port, "eval", script, "0"])).succeeded();
    assert_eq!(ended.out.trim(), "kept");
    redis.has_library();
}

/// Serves JavaScript with Node.js under the load of wrk.
#[test]
fn node_serves() {
    if !runs("node_serves", &["node", "wrk"]) {
        return;
    }
    let _one = heavy();
    let mut server = Server::start("malloc-node", |_, address| {
        let mut command = preloaded("node");
        command
            .arg(crate::support::testdata("serve.js"))
            .arg(address.port().to_string());
        command
    });
    let url = format!("http://{}/", server.address());
    let output = Wrk::new(&url, 32, 10).run();
    assert!(output.requests > 100, "{}", output.text);
    assert_eq!((output.refused, output.errors), (0, 0), "{}", output.text);
    server.has_library();
}
