//! The proxies with one transport, and their results.

use anyhow::{Context, Result};

use super::measure::{self, Contestant, Results, Subject};
use super::{Options, h2, tls};
use crate::before::comparison::Comparison;
use crate::load::stream::{Endpoint, Protocol};
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

/// All results by transport; empty for a transport that was not measured.
#[derive(Default)]
pub struct Outcome {
    pub plain: Vec<Results>,
    pub tls: Vec<Results>,
    pub tls_upstream: Vec<Results>,
    pub http2: Vec<Results>,
    pub h2c_upstream: Vec<Results>,
    pub grpc: Vec<Results>,
    pub cached: Vec<Results>,
    /// Steppe compared with its build of another commit, if there is one.
    pub comparisons: Vec<Comparison>,
}

impl Fleet {
    /// Starts the proxies one after another.
    ///
    /// Proxies other than Steppe and nginx that are not available are added to `skipped`, with the reason.
    ///
    /// # Errors
    /// When Steppe, its other build or nginx does not run.
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
            if let Some(reason) = proxy.lacks(transport) {
                skipped.push(format!("{name}: {reason}"));
                continue;
            }
            let required = !matches!(
                proxy,
                Proxy::Floor
                    | Proxy::FloorSteppeH2
                    | Proxy::Haproxy
                    | Proxy::Envoy
                    | Proxy::Caddy
                    | Proxy::Varnish
            );
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
            Transport::Http2 => self.http2 = results,
            Transport::H2cUpstream => self.h2c_upstream = results,
            Transport::Grpc => self.grpc = results,
            Transport::Cached => self.cached = results,
        }
    }

    /// The results of all transports.
    pub fn all(&self) -> impl Iterator<Item = &Results> {
        let all = [
            &self.plain,
            &self.tls,
            &self.tls_upstream,
            &self.http2,
            &self.h2c_upstream,
            &self.grpc,
            &self.cached,
        ];
        all.into_iter().flatten()
    }

    /// True if every response and every handshake was right.
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
    if transport.has_streams() && proxy.clear_address(transport) != proxy.address(transport) {
        ensure_free(proxy.clear_address(transport), proxy.name())?;
    }
    let launch = proxy.prepare(setup, transport)?;
    let credentials = &setup.credentials;
    let client = Client::new(credentials, &credentials.p256, Groups::X25519)?;
    let tls = match transport {
        Transport::TlsDownstream => Some(client),
        Transport::Http2 | Transport::H2cUpstream => Some(client.speaking_http2()),
        Transport::Plain | Transport::TlsUpstream | Transport::Grpc | Transport::Cached => None,
    };
    let protocol = match transport.has_streams() {
        true => Protocol::Http2,
        false => Protocol::Http1,
    };
    let subject = Subject {
        proxy,
        transport,
        endpoint: Endpoint {
            address: launch.address,
            tls,
            protocol,
        },
        launch,
    };
    let server = Server::start(&subject.launch, &setup.run_dir).await?;
    match protocol {
        Protocol::Http1 => measure::probe(&subject.endpoint).await?,
        Protocol::Http2 => h2::probe(&subject).await?,
    }
    let mut results = Results::new(&subject);
    if transport == Transport::TlsDownstream {
        results.agreed = tls::agree(proxy, credentials).await.context("TLS probe")?;
    }
    Ok((Contestant { subject, server }, results))
}
