//! `[dns.log]` out of a file that was read.

use std::path::PathBuf;

use steppe_config::typed::Node as Read;
use steppe_dns::config::{LoggedQueries, QueryLog, QueryLogFormat};

use crate::config::build::logs::destination;
use crate::config::typed::{ByName, FromNode};

#[expect(clippy::option_option, reason = "invalid and off are two things")]
pub(super) fn queries(queries: &Read) -> Option<Option<QueryLog>> {
    let Some(table) = queries.fields() else {
        return (<&str>::from_node(queries)? == "off").then_some(None);
    };
    let path: PathBuf = table.take("file")?;
    Some(Some(QueryLog {
        destination: destination(path),
        format: match table.take("format")? {
            "json" => QueryLogFormat::Json,
            "text" => QueryLogFormat::Text,
            _ => return None,
        },
        queries: match table.take("which")? {
            "all" => LoggedQueries::All,
            "rules" => LoggedQueries::OfRules,
            _ => return None,
        },
    }))
}
