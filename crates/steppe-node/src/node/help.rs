//! Advice for errors of the start.

use std::fmt::Display;
use std::io::ErrorKind;
use std::path::Path;

use steppe_net::{BindError, PrepareError};

use crate::admin::{AdminError, TokenError};
use crate::bind_help::bind_help;

const OTHER_PORTS: &str = "stop the process that listens there, or choose other ports with --listen, --listen-tls, \
                           --listen-dns, --admin and --demo, as in `steppe run --listen 127.0.0.1:8090` or \
                           `make run ARGS='--listen 127.0.0.1:8090'`";

/// An error of a service; `file`: the configuration's, if there is one.
pub(super) fn of_service(error: PrepareError, file: Option<&Path>) -> anyhow::Error {
    match &error {
        PrepareError::Bind { cause, .. } => with_help(&error, of_bind(cause, file)),
        PrepareError::Other { .. } => error.into(),
    }
}

/// An error of admin.
pub(super) fn of_admin(error: AdminError, file: Option<&Path>) -> anyhow::Error {
    let help = match &error {
        AdminError::Bind { source, .. } => of_bind(source, file),
        AdminError::Token(TokenError::Read { source, .. }) => of_token(source.kind()),
        AdminError::Token(_) => Some("`openssl rand -hex 32` makes a token"),
        AdminError::NeedsToken(_) => Some("set `admin.token_file`, or listen on 127.0.0.1"),
        AdminError::Tls(_) | AdminError::Socket { .. } | AdminError::OverBudget(_) => None,
    };
    with_help(&error, help)
}

/// An error of the demo origin.
pub(super) fn of_demo(error: &str) -> anyhow::Error {
    with_help(&error, Some(OTHER_PORTS))
}

fn of_bind(error: &BindError, file: Option<&Path>) -> Option<&'static str> {
    match (error, file) {
        (BindError::Taken(_), None) => Some(OTHER_PORTS),
        (error, _) => bind_help(error),
    }
}

fn of_token(kind: ErrorKind) -> Option<&'static str> {
    match kind {
        ErrorKind::NotFound => Some(
            "create the token, as in `openssl rand -hex 32`, or correct `admin.token_file`: \
             relative paths count from the folder of the configuration",
        ),
        ErrorKind::PermissionDenied => {
            Some("give the user that runs the node read access to the file")
        }
        _ => None,
    }
}

fn with_help(error: &dyn Display, help: Option<&str>) -> anyhow::Error {
    match help {
        Some(help) => anyhow::anyhow!("{error}\n  help: {help}"),
        None => anyhow::anyhow!("{error}"),
    }
}
