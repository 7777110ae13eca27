//! The floor: this bench's own least proxy ([`crate::floor`]), in a process of its own.

use anyhow::Result;

use super::{Proxy, Setup, Transport, cargo, origin};
use crate::server::Launch;

pub fn prepare(setup: &Setup, transport: Transport) -> Result<Launch> {
    // Without optimization it would be no floor.
    let program = match cfg!(debug_assertions) {
        true => cargo::built(&setup.root, &setup.target_dir, "steppe-bench")?,
        false => std::env::current_exe()?,
    };
    let listen = Proxy::Floor.address(transport);
    let upstream = ["--upstream".to_owned(), origin::ADDRESS.to_string()];
    let (what, own) = if transport == Transport::Http2 {
        let (clear, own) = (
            Proxy::Floor.clear_address(transport),
            &setup.credentials.p256,
        );
        let own = [
            "floor-h2-proxy".to_owned(),
            "--listen-tls".to_owned(),
            listen.to_string(),
            "--listen".to_owned(),
            clear.to_string(),
            "--cert".to_owned(),
            own.cert.display().to_string(),
            "--key".to_owned(),
            own.key.display().to_string(),
        ];
        ("floor-h2-proxy, the crate h2 and rustls", own.to_vec())
    } else {
        let own = ["floor-proxy", "--listen", &listen.to_string()].map(str::to_owned);
        ("floor-proxy", own.to_vec())
    };
    Ok(Launch {
        name: format!("floor{}", transport.suffix()),
        version: format!("steppe-bench {what}, the least that forwards"),
        program,
        arguments: own.into_iter().chain(upstream).map(Into::into).collect(),
        environment: Vec::new(),
        address: listen,
    })
}
