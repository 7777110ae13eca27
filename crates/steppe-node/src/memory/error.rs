//! Errors of the report of the process's memory.

/// The reason why there is no report.
#[derive(Debug, thiserror::Error)]
pub enum ReportError {
    /// The kernel does not report it: no `/proc`, or one without `smaps`.
    #[error("cannot read /proc/self/{file}: {source}")]
    Proc {
        /// The file in `/proc/self`.
        file: &'static str,
        /// The error of `procfs`.
        source: procfs::ProcError,
    },
    /// The descriptors can't be listed.
    #[error("cannot list /proc/self/fd: {0}")]
    Descriptors(#[from] std::io::Error),
}
