//! The floor: this bench's own least proxy ([`crate::floor`]), in a process of its own.

use anyhow::Result;

use super::{Proxy, Setup, Transport, cargo, origin};
use crate::server::Launch;

pub fn prepare(setup: &Setup) -> Result<Launch> {
    // Without optimization it would be no floor.
    let program = match cfg!(debug_assertions) {
        true => cargo::built(setup, "steppe-bench")?,
        false => std::env::current_exe()?,
    };
    let (listen, upstream) = (Proxy::Floor.address(Transport::Plain), origin::ADDRESS);
    Ok(Launch {
        name: "floor".to_owned(),
        version: "steppe-bench floor-proxy, the least that forwards".to_owned(),
        program,
        arguments: [
            "floor-proxy",
            "--listen",
            &listen.to_string(),
            "--upstream",
            &upstream.to_string(),
        ]
        .map(Into::into)
        .into(),
        environment: Vec::new(),
        address: listen,
    })
}
