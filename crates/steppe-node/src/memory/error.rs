//! Why there is no report of the process's memory.

/// Why there is no report.
#[derive(Debug, thiserror::Error)]
pub enum ReportError {
    /// The kernel does not tell: no `/proc`, or one without `smaps`.
    #[error("cannot read /proc/self/{file}: {source}")]
    Proc {
        /// Which file.
        file: &'static str,
        /// What `procfs` says.
        source: procfs::ProcError,
    },
    /// The descriptors can't be listed.
    #[error("cannot list /proc/self/fd: {0}")]
    Descriptors(#[from] std::io::Error),
}
