//! Keys of the query log.

use std::path::PathBuf;

use steppe_config::choice::Choices;
use steppe_config::form::FILE;
use steppe_config::key::{Key, choice, key, of, table, text};
use steppe_config::keys;
use steppe_config::table::{Absent, Kind, Table};
use steppe_config::typed::Fields;
use steppe_telemetry::Destination;

use crate::config::{LoggedQueries, QueryLog, QueryLogFormat};

/// `[dns.log]`.
pub static LOG: Key<Option<QueryLog>> =
    key("log", table(&TABLE, |log| log.get(&QUERIES)), TABLE.doc).or(Absent::Table);

static TABLE: Table = Table::new("dns.log", "Log of queries.", keys! { QUERIES });

/// `dns.log.queries`; `None`: off.
pub static QUERIES: Key<Option<QueryLog>> = key(
    "queries",
    of(
        Kind::Either(&[Kind::Choice(&["off"]), Kind::Table(&QUERY_LOG)]),
        |node| match node.fields() {
            None => node.chosen().map(|_| None),
            Some(log) => build(log).map(Some),
        },
    ),
    "Query log: \"off\", or a table with its file.",
)
.or(Absent::Text("off"));

static QUERY_LOG: Table = Table::new(
    "dns.log.queries",
    "Query log: a line for each query that was read and answered, unless a rule decides otherwise; none \
     for queries beyond `client_qps`. If the disk is too slow, lines are dropped and counted in \
     `steppe_dns_query_log_lines`.",
    keys! { FILE_OF_LINES, FORMAT, WHICH },
);

/// File that lines are appended to.
pub static FILE_OF_LINES: Key<PathBuf> = key(
    "file",
    text(&FILE),
    "File that lines are appended to; \"/dev/stdout\" is standard output. It is reopened on SIGHUP.",
)
.required();

static FORMAT: Key<QueryLogFormat> = key(
    "format",
    choice(&Choices::of(&[
        ("json", QueryLogFormat::Json),
        ("text", QueryLogFormat::Text),
    ])),
    "\"json\": an object with `time`, `client`, `id` (of the client), `transport`, `name`, `type`, \
     `rcode`, `decision`, `upstream`, `tag` (of a rule) and `us` (microseconds), without those that are \
     unknown. \"text\": the same values in this order, separated by spaces, `-` for an unknown one.",
)
.or(Absent::Text("json"));

pub(super) static WHICH: Key<LoggedQueries> = key(
    "which",
    choice(&Choices::of(&[
        ("all", LoggedQueries::All),
        ("rules", LoggedQueries::OfRules),
    ])),
    "Queries that are logged if no rule's `log` decides: \"all\", or with \"rules\" none.",
)
.or(Absent::Text("all"));

fn build(log: &Fields) -> Option<QueryLog> {
    Some(QueryLog {
        destination: Destination::at(log.get(&FILE_OF_LINES)?),
        format: log.get(&FORMAT)?,
        queries: log.get(&WHICH)?,
    })
}
