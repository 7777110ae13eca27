//! The generator's cost of a request: CPU time, and memory of its own.
//!
//! ```text
//! load_cost http1|http2|dns TARGET CONNECTIONS SECONDS [RATE]
//! ```
//!
//! One thread; `TARGET` is a URL, or the address of a name server. Figures, and no judgment: the
//! generator and the target share the machine.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use steppe_lab::load::{Burst, Driver, Interval};
use steppe_lab::scenario::{DnsLoad, Expect, HttpLoad, Load, LoadKind, Pace};

fn main() -> anyhow::Result<()> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let [kind, target, connections, seconds, rest @ ..] = words.as_slice() else {
        bail!("load_cost http1|http2|dns TARGET CONNECTIONS SECONDS [RATE]");
    };
    let load = Load {
        name: kind.clone(),
        pace: match rest.first() {
            Some(rate) => Pace::Open {
                rate_per_s: rate.parse()?,
            },
            None => Pace::Closed,
        },
        ramp: Duration::ZERO,
        seed: 1,
        threads: 1,
        timeout: Duration::from_secs(10),
        kind: load_kind(kind, target, connections.parse()?)?,
    };
    let mut driver = Driver::start(&[load], 1, Instant::now(), |_| PathBuf::new())?;
    let length = Duration::from_secs(seconds.parse()?);
    driver.resume(Burst {
        length,
        epoch: 0,
        to_end: false,
    });
    std::thread::sleep(length);
    driver.pause(Duration::from_secs(10));
    let interval = driver.take().pop().context("there is one load")?;
    print(&interval, length)
}

fn load_kind(kind: &str, target: &str, connections: u32) -> anyhow::Result<LoadKind> {
    let http = HttpLoad {
        url: target.to_owned(),
        method: "GET".to_owned(),
        headers: Vec::new(),
        body_bytes: 0,
        expect: vec![Expect { from: 200, to: 299 }],
        connections,
        streams: 1,
        ca: None,
        verify: !target.starts_with("https"),
    };
    Ok(match kind {
        "http1" => LoadKind::Http1(http),
        "http2" => LoadKind::Http2(HttpLoad { streams: 8, ..http }),
        "dns" => LoadKind::Dns(DnsLoad {
            server: target.parse()?,
            tcp: false,
            names: vec!["host.test".to_owned()],
            spread: 1,
            record_type: "A".to_owned(),
            expect_rcode: "NOERROR".to_owned(),
            connections,
        }),
        other => bail!("`{other}` is no kind of load"),
    })
}

#[expect(
    clippy::cast_precision_loss,
    reason = "figures for people, far below 2^53"
)]
fn print(interval: &Interval, length: Duration) -> anyhow::Result<()> {
    let (operations, seconds) = (interval.operations as f64, length.as_secs_f64());
    let on_cpu = interval.generator.on_cpu.context("no schedstat here")?;
    let memory = procfs::process::Process::myself()?.status()?.vmhwm;
    println!("{interval:?}");
    println!("operations a second: {:.0}", operations / seconds);
    println!(
        "CPU a request: {:.1} us",
        on_cpu * seconds * 1e6 / operations
    );
    println!("busy: {:.3}", interval.generator.busy().unwrap_or(f64::NAN));
    for quantile in [0.5, 0.99, 0.999] {
        let response = interval.response.value_at_quantile(quantile);
        let service = interval.service.value_at_quantile(quantile);
        println!("{quantile}: response {response} us, service {service} us");
    }
    println!("highest RSS: {:?} KiB", memory);
    Ok(())
}
