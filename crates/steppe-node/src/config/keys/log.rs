//! Keys of `[log]`.

use steppe_config::choice::Choices;
use steppe_config::key::{Key, choice, key, of};
use steppe_config::keys;
use steppe_config::table::{Absent, Kind, Table};
use steppe_config::typed::{Fields, Node as Read};
use steppe_http::access::AccessFormat;
use steppe_http::config::keys::access;
use steppe_telemetry::Destination;
use steppe_telemetry::log::{Level, LogFormat};

/// `[log]`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Log {
    /// The least severe level that is logged.
    pub level: Level,
    /// Format of a line.
    pub format: LogFormat,
    /// A line for each exchange. `None`: off.
    pub access: Option<Access>,
}

/// `log.access`: a line for each exchange.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Access {
    /// The destination of lines.
    pub destination: Destination,
    /// The format of lines.
    pub format: AccessFormat,
}

pub static TABLE: Table = Table::new(
    "log",
    "Log of the node, written to standard error, one event a line.",
    keys! { LEVEL, FORMAT, ACCESS },
);

static LEVEL: Key<Level> = key(
    "level",
    choice(&Choices::of(&[
        ("error", Level::Error),
        ("warn", Level::Warn),
        ("info", Level::Info),
        ("debug", Level::Debug),
    ])),
    "Least severe level that is logged. A reload changes it.",
)
.or(Absent::Text("info"));

static FORMAT: Key<LogFormat> = key(
    "format",
    choice(&Choices::of(&[
        ("text", LogFormat::Text),
        ("json", LogFormat::Json),
    ])),
    "Format of a line.",
)
.or(Absent::Text("text"));

pub static ACCESS: Key<Option<Access>> = key(
    "access",
    of(
        Kind::Either(&[
            Kind::Choice(&["off", "stdout"]),
            Kind::Table(&access::TABLE),
        ]),
        access_log,
    ),
    "Access log: a line for each exchange. \"stdout\" writes combined lines to standard output; a \
     table writes to a file.",
)
.or(Absent::Text("off"));

/// Builds `[log]`; `None`: a value is invalid, and its mistake was reported.
pub fn build(log: &Fields) -> Option<Log> {
    Some(Log {
        level: log.get(&LEVEL)?,
        format: log.get(&FORMAT)?,
        access: log.get(&ACCESS)?,
    })
}

#[expect(clippy::option_option, reason = "invalid and off are two things")]
fn access_log(log: &Read) -> Option<Option<Access>> {
    let Some(table) = log.fields() else {
        let stdout = Access {
            destination: Destination::Stdout,
            format: AccessFormat::Combined,
        };
        return Some((log.chosen()? == "stdout").then_some(stdout));
    };
    let (path, format) = access::build(table)?;
    Some(Some(Access {
        destination: Destination::at(path),
        format,
    }))
}
