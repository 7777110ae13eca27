//! Advice about an address that a node can't listen on.

use std::io::ErrorKind;

use steppe_net::{BindError, ListenAddress};

/// Advice about two addresses that one socket would serve.
pub(crate) const ONE_OF_THEM: &str =
    "leave one of them out, or give it another port or a specific address";
/// Advice about a socket whose folder is missing.
pub(crate) const SOCKET_FOLDER: &str =
    "create the folder of the socket; a unit does it with `RuntimeDirectory=`";

/// Advice about an error; `None`: the error itself has it.
pub(crate) fn bind_help(error: &BindError) -> Option<&'static str> {
    match error {
        BindError::Taken(_) => {
            Some("stop the process that listens there, or change the address in the configuration")
        }
        BindError::NotASocket(_) => Some("move the file away, or choose another path"),
        BindError::MoreInherited { .. } => {
            Some("lower the number of sockets of the unit, or raise `node.workers`")
        }
        BindError::Overlaps { .. } | BindError::Duplicate(_) => Some(ONE_OF_THEM),
        BindError::System { address, source } => system_help(address, source.kind()),
        BindError::OfAnotherService(_) | BindError::UnixDatagram(_) => None,
    }
}

fn system_help(address: &ListenAddress, kind: ErrorKind) -> Option<&'static str> {
    match (address, kind) {
        (ListenAddress::Tcp(tcp), ErrorKind::PermissionDenied) if tcp.port() < 1024 => Some(
            "ports below 1024 need CAP_NET_BIND_SERVICE: start the node by its unit, which has \
             it, give it to the binary with `setcap cap_net_bind_service=+ep`, or choose a port \
             above 1023",
        ),
        (ListenAddress::Tcp(_), ErrorKind::AddrNotAvailable) => Some(
            "no interface of this machine has this address: `ip address` shows those that there \
             are; 0.0.0.0 and [::] take all of them",
        ),
        (ListenAddress::Unix(_), ErrorKind::NotFound) => Some(SOCKET_FOLDER),
        (ListenAddress::Unix(_), ErrorKind::PermissionDenied) => {
            Some("give the user that runs the node write access to the folder")
        }
        _ => None,
    }
}
