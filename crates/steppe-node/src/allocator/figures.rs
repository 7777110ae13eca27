//! The statistics that an allocator reports of its own memory.

/// An allocator's statistics of its own memory. No byte is counted twice.
#[derive(Debug, Clone, Copy)]
pub struct Figures {
    /// Bytes allocated, rounded up to size classes.
    pub live_bytes: u64,
    /// Bytes of free blocks of partly used slabs. Not all of them are resident.
    pub retained_bytes: u64,
    /// Bytes free and resident, purged when their decay time is over.
    pub dirty_bytes: u64,
    /// Bytes of metadata.
    pub meta_bytes: u64,
    /// Bytes returned to the system so far.
    pub purged_bytes: u64,
}
