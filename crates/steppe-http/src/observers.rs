//! Observers of exchanges: the access log and the traces, which a reload may change.
//!
//! Invariant: an exchange is told to those that there were when it began, whatever comes after it.

use std::sync::Arc;

use steppe_telemetry::trace::Tracer;

use crate::access::AccessLog;

/// Observers of the exchanges of one snapshot.
#[derive(Debug, Clone, Default)]
pub struct Observers {
    /// `None`: exchanges are not logged.
    pub access: Option<Arc<AccessLog>>,
    /// `None`: there are no traces.
    pub tracer: Option<Arc<Tracer>>,
}

impl Observers {
    /// True if both log to the same access log, or to none.
    pub(crate) fn log_alike(&self, other: &Self) -> bool {
        match (&self.access, &other.access) {
            (Some(one), Some(other)) => Arc::ptr_eq(one, other),
            (None, None) => true,
            _ => false,
        }
    }
}
