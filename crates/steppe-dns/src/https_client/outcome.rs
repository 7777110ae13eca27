//! Outcomes of queries by HTTPS.

use steppe_mem::Buffer;

use super::error::QueryError;

/// The end of a query, or of a connection.
#[derive(Debug)]
pub enum Outcome {
    /// The content of a response, with its query's id in the first two bytes. The rest was not looked at.
    Response(Buffer),
    /// A query has failed.
    Failed {
        /// Id of the query.
        id: u16,
        /// The reason.
        error: QueryError,
    },
    /// The server has not processed a query, which may be sent again.
    Refused {
        /// Id of the query.
        id: u16,
    },
    /// The server takes no further query on this connection. Queries that it does not process are refused next.
    Leaving,
}
