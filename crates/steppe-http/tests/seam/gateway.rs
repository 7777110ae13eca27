//! A gateway behind listeners of several protocols.

use std::net::{Ipv4Addr, SocketAddr};
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use steppe_http::codecs::Codecs;
use steppe_http::config::{
    self, Listener, ProtocolName, Route, Servers, Target, Upstream, UpstreamKind,
};
use steppe_http::filter::{FileError, FilterFactory, custom};
use steppe_mem::Budget;
use steppe_net::{BoundListener, Io, ListenAddress, ServerAddress, Worker, bind};

use crate::in_process::{self, InProcess};

/// A gateway that runs until it is dropped.
pub struct Running {
    /// Where each protocol is spoken, in the order of `protocols`.
    pub addresses: Vec<SocketAddr>,
    gateway: InProcess,
    pub budget: Budget,
}

/// The parts of a gateway: codecs, listeners, servers and filters.
pub struct Setup {
    pub codecs: Codecs,
    /// One listener each.
    pub protocols: Vec<ProtocolName>,
    /// Behind every path.
    pub servers: Servers,
    /// In the order of the route.
    pub filters: Vec<Arc<dyn FilterFactory>>,
}

/// Servers that speak `protocol`, in turn.
pub fn servers(protocol: ProtocolName, addresses: impl IntoIterator<Item = SocketAddr>) -> Servers {
    Servers {
        protocol,
        keepalive: 8,
        ..Servers::of(addresses.into_iter().map(ServerAddress::Ip))
    }
}

impl Running {
    pub fn start(setup: Setup) -> Self {
        Self::start_over(setup, Worker::default_io)
    }

    /// The same, with other drivers below its sockets.
    pub fn start_over(setup: Setup, io: fn() -> Rc<dyn Io>) -> Self {
        let any = ListenAddress::Tcp((Ipv4Addr::LOCALHOST, 0).into());
        let bound: Vec<_> = setup
            .protocols
            .iter()
            .flat_map(|_| bind(&any, 1).expect("binds"))
            .collect();
        let addresses: Vec<_> = bound
            .iter()
            .map(|bound| match *bound.address() {
                ListenAddress::Tcp(address) => address,
                _ => unreachable!("it was bound to TCP"),
            })
            .collect();
        let codecs = setup.codecs.clone();
        let config = configuration(setup, &bound);
        let budget = Budget::new(64 << 20);
        let setup = in_process::Setup {
            codecs,
            io,
            ..in_process::Setup::of(&budget, config, bound)
        };
        Self {
            addresses,
            gateway: InProcess::start(setup, || ()),
            budget,
        }
    }

    /// Reads the files of filters again.
    ///
    /// # Errors
    /// A file can't be used.
    pub fn reload(&mut self) -> Result<(), FileError> {
        self.gateway.reload()
    }
}

pub fn configuration(setup: Setup, bound: &[BoundListener]) -> config::Gateway {
    let listeners = (bound.iter().zip(&setup.protocols))
        .map(|(bound, &protocol)| Listener::of(bound.address().clone(), vec![protocol]));
    let filters = setup.filters.into_iter().enumerate();
    let filters: Vec<_> = filters
        .map(|(index, filter)| config::Filter {
            name: format!("filter {index}"),
            kind: custom(filter),
        })
        .collect();
    let path = "/at/{rest*}".parse().expect("valid");
    config::Gateway {
        listeners: listeners.collect(),
        upstreams: vec![Upstream {
            name: "servers".into(),
            kind: UpstreamKind::Servers(setup.servers),
        }],
        routes: vec![Route {
            filters: (0..filters.len()).collect(),
            total: Some(Duration::from_secs(60)),
            ..Route::of("all", path, Target::Upstream(0))
        }],
        filters,
        ..config::Gateway::default()
    }
}
