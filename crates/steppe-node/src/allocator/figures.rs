//! The figures that an allocator reports of its own memory.

/// What an allocator says of its own memory. No byte is in two of them.
#[derive(Debug, Clone, Copy)]
pub struct Figures {
    /// Handed out, rounded up to size classes.
    pub live_bytes: u64,
    /// Free blocks among live ones. Not all of it is resident.
    pub retained_bytes: u64,
    /// Free, resident, and given back when its time has come.
    pub dirty_bytes: u64,
    /// Its own books.
    pub meta_bytes: u64,
    /// Given back to the system so far.
    pub purged_bytes: u64,
}
