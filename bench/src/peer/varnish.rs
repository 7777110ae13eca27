//! Varnish: the cache that many sites have. Its threads are as many as it likes, since a thread serves one
//! connection at a time; what is compared is CPU time.

use anyhow::Result;

use super::{Proxy, Setup, Transport, origin, version, write_config};
use crate::machine;
use crate::server::Launch;

pub fn prepare(setup: &Setup) -> Result<Launch> {
    let program = machine::program("varnishd")?;
    let version = version(&program, &["-V"])?;
    let origin = origin::CACHED_ADDRESS;
    let text = format!(
        "vcl 4.0;\nbackend default {{ .host = \"{}\"; .port = \"{}\"; }}\n",
        origin.ip(),
        origin.port()
    );
    let config = write_config(setup, "varnish.vcl", &text)?;
    let address = Proxy::Varnish.address(Transport::Cached);
    let folder = setup.run_dir.join("varnish");
    let mut arguments = vec![
        "-F".into(),
        "-n".into(),
        folder.into(),
        "-f".into(),
        config.into(),
    ];
    let further = format!("-j none -T none -a {address} -s malloc,64M -p timeout_idle=3600");
    arguments.extend(further.split(' ').map(Into::into));
    Ok(Launch {
        name: "varnish-cached".to_owned(),
        version,
        program,
        arguments,
        environment: Vec::new(),
        address,
    })
}
