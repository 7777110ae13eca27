//! The phases of handshakes: the server's CPU for a connection without requests.

pub mod report;

use anyhow::{Context, Result, ensure};
use rustls::{HandshakeKind, NamedGroup};

use super::Bench;
use super::measure::{Contestant, Handshake, Results};
use crate::load::handshakes::{self as load, Expected, Extent, Handshakes};
use crate::load::tls::{Agreed, Client, Groups};
use crate::peer::credentials::{Certificate, Credentials};
use crate::peer::{Proxy, Transport};
use crate::process::{self, CpuUsage};

/// Makes a handshake with each certificate; returns the agreement with a client of [`Groups::PostQuantum`].
///
/// # Errors
/// When a handshake fails.
pub async fn agree(proxy: Proxy, credentials: &Credentials) -> Result<Option<Agreed>> {
    let rsa = Client::new(credentials, &credentials.rsa, Groups::X25519)?;
    load::once(proxy.rsa_address(), &rsa).await.context("RSA")?;
    let client = Client::new(credentials, &credentials.p256, Groups::PostQuantum)?;
    let address = proxy.address(Transport::TlsDownstream);
    let agreed = load::once(address, &client).await.context("P-256")?;
    eprintln!("{}: {agreed}", proxy.name());
    Ok(Some(agreed))
}

/// Full handshakes of each kind that the proxy has.
pub async fn handshakes(
    contestant: &Contestant,
    results: &mut Results,
    bench: &Bench,
) -> Result<()> {
    let full = |kind: Kind| kind.full(contestant.subject.proxy, &bench.setup.credentials);
    let measured = full(Kind::P256).run(contestant, results, bench).await?;
    results.p256.push(measured);
    eprint!("{:<24} ", "");
    let measured = full(Kind::Rsa).run(contestant, results, bench).await?;
    results.rsa.push(measured);
    let has_post_quantum = |agreed: Agreed| agreed.group == NamedGroup::X25519MLKEM768;
    if results.agreed.is_some_and(has_post_quantum) {
        eprint!("{:<24} ", "");
        let full = full(Kind::PostQuantum);
        let measured = full.run(contestant, results, bench).await?;
        results.post_quantum.push(measured);
    }
    Ok(())
}

/// Full handshakes by certificate and group.
#[derive(Debug, Clone, Copy)]
pub enum Kind {
    P256,
    Rsa,
    /// X25519MLKEM768 with the P-256 certificate.
    PostQuantum,
}

impl Kind {
    fn full(self, proxy: Proxy, credentials: &Credentials) -> Full<'_> {
        let address = proxy.address(Transport::TlsDownstream);
        let (name, address, server, groups) = match self {
            Self::P256 => ("P-256", address, &credentials.p256, Groups::X25519),
            Self::Rsa => {
                let address = proxy.rsa_address();
                ("RSA-2048", address, &credentials.rsa, Groups::X25519)
            }
            Self::PostQuantum => {
                let groups = Groups::PostQuantum;
                ("X25519MLKEM768", address, &credentials.p256, groups)
            }
        };
        Full {
            name,
            address,
            server,
            groups,
        }
    }

    /// Makes so many handshakes.
    ///
    /// # Errors
    /// When one fails, or is of another kind.
    pub async fn run(self, proxy: Proxy, credentials: &Credentials, times: u64) -> Result<()> {
        let full = self.full(proxy, credentials);
        let client = Client::new(credentials, full.server, full.groups)?;
        let extent = Extent::Times(times);
        let run = load::run(full.address, &client, full.expected(), extent).await;
        all_succeeded(&run)
    }
}

/// So many resumed handshakes, by a client that has the tickets.
pub struct Resumption {
    address: std::net::SocketAddr,
    client: Client,
    times: u64,
}

impl Resumption {
    /// Collects the tickets.
    ///
    /// # Errors
    /// When the server gives none.
    pub async fn prepare(proxy: Proxy, credentials: &Credentials, times: u64) -> Result<Self> {
        let client = Client::new(credentials, &credentials.p256, Groups::X25519)?;
        let address = proxy.address(Transport::TlsDownstream);
        let count = usize::try_from(times)?;
        let tickets = load::collect_tickets(address, &client, count).await?;
        Ok(Self {
            address,
            client: client.resuming(&tickets),
            times,
        })
    }

    async fn load(&self) -> Handshakes {
        let expected = Expected {
            kind: HandshakeKind::Resumed,
            group: NamedGroup::X25519,
        };
        let extent = Extent::Times(self.times);
        load::run(self.address, &self.client, expected, extent).await
    }

    /// # Errors
    /// When a handshake fails, or is of another kind.
    pub async fn run(&self) -> Result<()> {
        all_succeeded(&self.load().await)
    }
}

fn all_succeeded(run: &Handshakes) -> Result<()> {
    let first = run.first_error.as_deref().unwrap_or("no reason given");
    ensure!(
        run.errors == 0,
        "{} handshakes failed, first: {first}",
        run.errors
    );
    Ok(())
}

/// Measures handshakes with a ticket each; the handshakes that collect tickets are not in the figure.
pub async fn resumed(contestant: &Contestant, results: &mut Results, bench: &Bench) -> Result<()> {
    let times = u64::try_from(bench.plan.tickets)?;
    let (proxy, credentials) = (contestant.subject.proxy, &bench.setup.credentials);
    let resumption = match Resumption::prepare(proxy, credentials, times).await {
        Ok(resumption) => resumption,
        Err(error) => {
            results.fault("resumed", &format!("{error:#}"));
            return Ok(());
        }
    };
    let process = contestant.server.process();
    let before = process::cpu(process)?;
    let run = resumption.load().await;
    let usage = process::cpu(process)?.since(&before);
    let measured = read(results, "resumed", &run, usage);
    results.resumed.push(measured);
    Ok(())
}

/// One kind of full handshake.
struct Full<'a> {
    name: &'static str,
    address: std::net::SocketAddr,
    server: &'a Certificate,
    groups: Groups,
}

impl Full<'_> {
    const fn expected(&self) -> Expected {
        Expected {
            kind: HandshakeKind::Full,
            group: match self.groups {
                Groups::X25519 => NamedGroup::X25519,
                Groups::PostQuantum => NamedGroup::X25519MLKEM768,
            },
        }
    }

    async fn run(
        &self,
        contestant: &Contestant,
        results: &mut Results,
        bench: &Bench,
    ) -> Result<Handshake> {
        let client = Client::new(&bench.setup.credentials, self.server, self.groups)?;
        let process = contestant.server.process();
        let run = |extent| load::run(self.address, &client, self.expected(), extent);
        // The phase before used code and tables of another algorithm.
        run(Extent::Times(WARM_UP_HANDSHAKES)).await;
        let before = process::cpu(process)?;
        let run = run(Extent::For(bench.plan.handshakes)).await;
        let usage = process::cpu(process)?.since(&before);
        Ok(read(results, self.name, &run, usage))
    }
}

const WARM_UP_HANDSHAKES: u64 = 100;

/// Reads the figure of a run; failed handshakes are recorded as a fault beside it.
fn read(results: &mut Results, name: &str, run: &Handshakes, usage: CpuUsage) -> Handshake {
    if let Some(error) = &run.first_error {
        let failed = format!("{} handshakes failed, first: {error}", run.errors);
        results.fault(name, &failed);
    }
    let handshake = Handshake::of(run.count, usage);
    let (rate, cpu) = (handshake.per_cpu_second, handshake.cpu_us);
    eprint!("{rate:>9.0} {name} handshakes a CPU second, {cpu:.1} µs CPU each");
    match run.agreed {
        Some(agreed) => eprintln!(", {:?}", agreed.group),
        None => eprintln!(),
    }
    handshake
}

impl Handshake {
    /// Figures of so many handshakes; NaN for none, which tables show as not measured.
    fn of(count: u64, usage: CpuUsage) -> Self {
        let cpu_us = usage.total.as_secs_f64() * 1e6 / count as f64;
        let cpu_us = if count == 0 { f64::NAN } else { cpu_us };
        Self {
            cpu_us,
            per_cpu_second: 1e6 / cpu_us,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    const USAGE: CpuUsage = CpuUsage {
        total: Duration::from_millis(500),
        user_share: 0.9,
    };

    #[test]
    fn handshakes_are_counted_a_second_of_cpu() {
        let handshake = Handshake::of(2_000, USAGE);
        assert_eq!(
            (handshake.cpu_us, handshake.per_cpu_second),
            (250.0, 4_000.0)
        );
        assert!(Handshake::of(0, USAGE).cpu_us.is_nan());
    }

    #[test]
    fn a_failed_handshake_is_a_fault_of_the_run() {
        let mut results = Results::default();
        let mut run = Handshakes {
            count: 10,
            ..Handshakes::default()
        };
        read(&mut results, "P-256", &run, USAGE);
        assert!(results.errors.is_empty());
        run.errors = 1;
        run.first_error = Some("refused".to_owned());
        read(&mut results, "P-256", &run, USAGE);
        assert_eq!(
            results.errors,
            [" P-256: 1 handshakes failed, first: refused"]
        );
    }
}
