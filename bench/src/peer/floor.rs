//! The floor: this bench's own minimal proxy ([`crate::floor`]), in a process of its own.

use std::net::SocketAddr;
use std::path::PathBuf;

use anyhow::Result;

use super::{Proxy, Setup, Transport, cargo, origin};
use crate::server::Launch;

/// The proxy of HTTP/1.1.
pub fn proxy(setup: &Setup, listen: SocketAddr, upstream: SocketAddr) -> Result<Launch> {
    Ok(Launch {
        name: "floor".to_owned(),
        version: "steppe-bench floor-proxy, the least that forwards".to_owned(),
        program: program(setup)?,
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

/// Without optimization it would be no floor.
fn program(setup: &Setup) -> Result<PathBuf> {
    Ok(match cfg!(debug_assertions) {
        true => cargo::built(&setup.root, &setup.target_dir, "steppe-bench")?,
        false => std::env::current_exe()?,
    })
}

pub fn prepare(setup: &Setup, transport: Transport) -> Result<Launch> {
    let listen = Proxy::Floor.address(transport);
    if transport != Transport::Http2 {
        let name = format!("floor{}", transport.suffix());
        return Ok(Launch {
            name,
            ..proxy(setup, listen, origin::ADDRESS)?
        });
    }
    let (clear, own) = (
        Proxy::Floor.clear_address(transport),
        &setup.credentials.p256,
    );
    let arguments = [
        "floor-h2-proxy".to_owned(),
        "--listen-tls".to_owned(),
        listen.to_string(),
        "--listen".to_owned(),
        clear.to_string(),
        "--cert".to_owned(),
        own.cert.display().to_string(),
        "--key".to_owned(),
        own.key.display().to_string(),
        "--upstream".to_owned(),
        origin::ADDRESS.to_string(),
    ];
    Ok(Launch {
        name: format!("floor{}", transport.suffix()),
        version: "steppe-bench floor-h2-proxy, the crate h2 and rustls, the least that forwards"
            .to_owned(),
        program: program(setup)?,
        arguments: arguments.map(Into::into).into(),
        environment: Vec::new(),
        address: listen,
    })
}
