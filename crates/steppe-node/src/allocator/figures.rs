//! The figures that an allocator reports of its own memory.

/// An allocator's statistics of its own memory. No byte is counted twice.
#[derive(Debug, Clone, Copy)]
pub struct Figures {
    /// Allocated, rounded up to size classes.
    pub live_bytes: u64,
    /// Free blocks of partly used slabs. Not all of it is resident.
    pub retained_bytes: u64,
    /// Free and resident, purged when its decay time is over.
    pub dirty_bytes: u64,
    /// Metadata.
    pub meta_bytes: u64,
    /// Returned to the system so far.
    pub purged_bytes: u64,
}
