//! Checks of addresses: that this machine has them, and that they are free.

use std::io::ErrorKind;

use steppe_config::mistake::Mistake;
use steppe_config::mistakes::Mistakes;
use steppe_config::typed::{Fields, Node};
use steppe_net::{BindError, ListenAddress, SocketKey, probe};

use crate::bind_help::bind_help;
use crate::config::check;

pub(super) fn check(file: &Fields, mistakes: &mut Mistakes) {
    let mut told = Vec::new();
    for node in check::streams(file) {
        if let Some(address) = node.typed.value::<ListenAddress>()
            && let Err(error) = probe(&SocketKey::stream(address.clone()))
        {
            told.push(node.span);
            mistakes.push(mistake(node, &error));
        }
    }
    for node in check::datagrams(file) {
        if let Some(ListenAddress::Tcp(address)) = node.typed.value()
            // An address with both kinds of sockets is reported once.
            && !told.contains(&node.span)
            && let Err(error) = probe(&SocketKey::datagram(*address))
        {
            mistakes.push(mistake(node, &error));
        }
    }
}

fn mistake(node: &Node, error: &BindError) -> Mistake {
    let (mistake, label) = match error {
        BindError::Taken(address) => {
            return Mistake::note(node.span, format!("{address} is in use"))
                .label("a process listens there")
                .help("this is fine if it is the node that runs; otherwise stop the process");
        }
        // The service manager may give the node a permission that this user lacks.
        BindError::System { source, .. } if source.kind() == ErrorKind::PermissionDenied => (
            Mistake::note(node.span, error.to_string()),
            "not by this user",
        ),
        _ => (
            Mistake::new(node.span, error.to_string()),
            "cannot be listened on",
        ),
    };
    let mistake = mistake.label(label);
    match bind_help(error) {
        Some(help) => mistake.help(help),
        None => mistake,
    }
}
