//! The proxies with one transport, and what was measured of each.

use anyhow::{Context, Result};

use super::measure::{self, Contestant, Results, Subject};
use super::{Options, tls};
use crate::load::stream::Endpoint;
use crate::load::tls::{Client, Groups};
use crate::peer::{Proxy, Setup, Transport};
use crate::server::{Server, ensure_free};

/// Proxies that run.
pub struct Fleet {
    pub transport: Transport,
    pub contestants: Vec<Contestant>,
    /// In the order of `contestants`.
    pub results: Vec<Results>,
}

/// Proxies that ran, and can be started again.
pub struct Stopped {
    pub transport: Transport,
    pub subjects: Vec<Subject>,
    pub results: Vec<Results>,
}

/// Everything that was measured, by transport; empty where nothing ran with one.
#[derive(Default)]
pub struct Outcome {
    pub plain: Vec<Results>,
    pub tls: Vec<Results>,
    pub tls_upstream: Vec<Results>,
}

impl Fleet {
    /// Starts the proxies one after another.
    ///
    /// Others than Steppe and nginx that can't be had are added to `skipped`, with the reason.
    ///
    /// # Errors
    /// When Steppe or nginx does not run.
    pub async fn start(
        transport: Transport,
        options: &Options,
        setup: &Setup,
        skipped: &mut Vec<String>,
    ) -> Result<Self> {
        let (mut contestants, mut results) = (Vec::new(), Vec::new());
        let proxies = options.proxies();
        for proxy in proxies.into_iter().filter(|proxy| proxy.speaks(transport)) {
            let name = format!("{}{}", proxy.name(), transport.suffix());
            let required = matches!(proxy, Proxy::Steppe | Proxy::SteppeLog | Proxy::Nginx);
            match start_proxy(proxy, transport, setup).await {
                Ok((contestant, measured)) => {
                    contestants.push(contestant);
                    results.push(measured);
                }
                Err(error) if required => return Err(error.context(name)),
                Err(error) => {
                    let reason = format!("{name}: {error:#}");
                    eprintln!("skipped {reason}");
                    skipped.push(reason);
                }
            }
        }
        Ok(Self {
            transport,
            contestants,
            results,
        })
    }

    /// Stops the servers.
    pub fn stop(self) -> Stopped {
        let subjects = self.contestants.into_iter().map(Contestant::stop);
        Stopped {
            transport: self.transport,
            subjects: subjects.collect(),
            results: self.results,
        }
    }
}

impl Outcome {
    pub fn insert(&mut self, transport: Transport, results: Vec<Results>) {
        match transport {
            Transport::Plain => self.plain = results,
            Transport::TlsDownstream => self.tls = results,
            Transport::TlsUpstream => self.tls_upstream = results,
        }
    }

    /// Of all transports.
    pub fn all(&self) -> impl Iterator<Item = &Results> {
        self.plain.iter().chain(&self.tls).chain(&self.tls_upstream)
    }

    /// Whether every response and every handshake was right.
    pub fn is_valid(&self) -> bool {
        self.all().all(|results| results.errors.is_empty())
    }
}

async fn start_proxy(
    proxy: Proxy,
    transport: Transport,
    setup: &Setup,
) -> Result<(Contestant, Results)> {
    ensure_free(proxy.address(transport), proxy.name())?;
    let launch = proxy.prepare(setup, transport)?;
    let with_tls = transport == Transport::TlsDownstream;
    let credentials = &setup.credentials;
    let tls = with_tls
        .then(|| Client::new(credentials, &credentials.p256, Groups::X25519))
        .transpose()?;
    let subject = Subject {
        proxy,
        transport,
        endpoint: Endpoint {
            address: launch.address,
            tls,
        },
        launch,
    };
    let server = Server::start(&subject.launch, &setup.run_dir).await?;
    measure::probe(&subject.endpoint).await?;
    let mut results = Results::new(&subject);
    if with_tls {
        results.agreed = tls::agree(proxy, credentials).await.context("TLS probe")?;
    }
    Ok((Contestant { subject, server }, results))
}
