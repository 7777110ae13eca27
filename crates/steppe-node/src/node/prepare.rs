//! Everything of a start that can fail for want of a port, a file or memory.

use std::path::PathBuf;

use anyhow::Context;
use steppe_mem::Budget;
use steppe_net::{Inherited, PreparedServices, ServiceSet};

use crate::admin::{self, Admin};
use crate::cli::RunOptions;
use crate::config::{Config, Origin, Workers};
use crate::container::memory_limit;
use crate::demo::{self, Certificate, Demo};
use crate::needs::{self, Needs};
use crate::services::{self, Services};

use super::help;

/// A node with all its resources, which serves nothing yet.
pub(super) struct Prepared {
    pub(super) config: Config,
    /// The configuration's file; `None`: the embedded default.
    pub(super) file: Option<PathBuf>,
    pub(super) origin: Origin,
    pub(super) budget: Budget,
    pub(super) workers: usize,
    pub(super) services: Services,
    pub(super) set: ServiceSet<Config>,
    /// The configuration, as prepared by all services.
    pub(super) first: PreparedServices,
    pub(super) admin: Option<Admin>,
    pub(super) demo: Option<Demo>,
    /// The certificate of the embedded default.
    pub(super) certificate: Option<Certificate>,
}

/// Binds, opens and reserves the resources that `options` need.
///
/// # Errors
/// The missing resource, by its key.
pub(super) async fn prepare(options: RunOptions, inherited: Inherited) -> anyhow::Result<Prepared> {
    let RunOptions {
        mut config,
        file,
        origin,
        certificate,
    } = options;
    let limit = memory_limit().context("/proc/meminfo")?;
    let bytes = config.node.memory_budget.bytes(limit);
    let budget_bytes = bytes.context("node.memory_budget")?;
    let budget = Budget::new(budget_bytes);
    let cpus = needs::cpus();
    let workers = needs::workers(&config, budget_bytes, cpus);
    if config.node.workers == Workers::Auto && workers < cpus {
        tracing::warn!(
            workers,
            cpus,
            "the memory budget carries fewer workers than CPUs"
        );
    }
    Needs::fixed(&config, budget_bytes, workers).fit()?;
    services::fit(&mut config);
    let demo = match file {
        Some(_) => None,
        None => Some(start_demo(&config)?),
    };
    let admin = bind_admin(&config, &inherited);
    let admin = admin.map_err(|error| help::of_admin(error, file.as_deref()))?;
    let services = Services::new(&config, &budget, workers)?;
    let set = services.set(inherited, workers);
    // Reserved first, so that lists leave the memory that admin reserves after them.
    let of_admin = config.admin.as_ref().map_or(0, |_| admin::FIXED_BYTES);
    let later = budget.root().lease().try_reserve(of_admin);
    let first = set
        .prepare_beside(&config)
        .await
        .map_err(|error| help::of_service(error, file.as_deref()))?;
    drop(later);
    for socket in set.unwanted_sockets() {
        tracing::warn!(socket, "no listener matches this inherited socket");
    }
    Ok(Prepared {
        config,
        file,
        origin,
        budget,
        workers,
        services,
        set,
        first,
        admin,
        demo,
        certificate,
    })
}

fn bind_admin(config: &Config, inherited: &Inherited) -> Result<Option<Admin>, admin::AdminError> {
    let Some(admin) = &config.admin else {
        return Ok(None);
    };
    let settings = admin::Settings {
        listen: admin.listen.clone(),
        probes: admin.probes.clone(),
        token_file: admin.token_file.clone(),
        tls: admin.tls.clone(),
    };
    Admin::bind(&settings, inherited).map(Some)
}

/// Starts the demo origin at the address that the embedded default has for it.
fn start_demo(config: &Config) -> anyhow::Result<Demo> {
    let address = services::first_server(config);
    let address = address.context("the embedded default names its demo origin")?;
    let started = std::net::TcpListener::bind(address).and_then(demo::spawn);
    started.map_err(|error| help::of_demo(&format!("demo origin: {address}: {error}")))
}
