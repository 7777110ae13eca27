//! The floors: this bench's own minimal proxies ([`crate::floor`]), in processes of their own.

use std::ffi::OsString;
use std::net::SocketAddr;
use std::path::PathBuf;

use anyhow::Result;

use super::{Proxy, Setup, Transport, cargo, loopback, origin};
use crate::server::Launch;

/// Name of the floor of HTTP/2 on Steppe's codec.
pub const ON_STEPPE_H2: &str = "floor-steppe-h2";

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
    Ok(Launch {
        name: format!("floor{}", transport.suffix()),
        version: "steppe-bench floor-h2-proxy, the crate h2 and rustls, the least that forwards"
            .to_owned(),
        program: program(setup)?,
        arguments: arguments("floor-h2-proxy", Proxy::Floor, transport, setup),
        environment: Vec::new(),
        address: listen,
    })
}

/// The proxy of HTTP/2 on Steppe's codec.
pub fn prepare_on_steppe_h2(setup: &Setup, transport: Transport) -> Result<Launch> {
    let proxy = Proxy::FloorSteppeH2;
    let mut arguments = arguments("floor-h2-codec", proxy, transport, setup);
    if transport.is_h2c_upstream() {
        arguments.extend(["--protocol", "h2c"].map(Into::into));
    }
    Ok(Launch {
        name: format!("{ON_STEPPE_H2}{}", transport.suffix()),
        version: "steppe-bench floor-h2-codec, steppe-h2 and rustls, the least that forwards"
            .to_owned(),
        program: program(setup)?,
        arguments,
        environment: Vec::new(),
        address: proxy.address(transport),
    })
}

/// Arguments of a floor of HTTP/2, which listens with TLS and without.
fn arguments(command: &str, proxy: Proxy, transport: Transport, setup: &Setup) -> Vec<OsString> {
    let own = &setup.credentials.p256;
    let clear = proxy.clear_address(transport);
    let with_tls = match proxy.address(transport) {
        // The only listener that is measured is the one without TLS.
        address if address == clear => loopback(0),
        address => address,
    };
    let arguments = [
        command.to_owned(),
        "--listen-tls".to_owned(),
        with_tls.to_string(),
        "--listen".to_owned(),
        clear.to_string(),
        "--cert".to_owned(),
        own.cert.display().to_string(),
        "--key".to_owned(),
        own.key.display().to_string(),
        "--upstream".to_owned(),
        transport.origin().to_string(),
    ];
    arguments.map(Into::into).into()
}
