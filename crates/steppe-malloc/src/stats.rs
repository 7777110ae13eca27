//! Statistics (placeholder).
/// What the allocator holds, in bytes.
#[derive(Debug, Clone, Copy, Default)]
pub struct Stats {
    /// Handed out to the program (blocks rounded up to their class).
    pub live_bytes: usize,
    /// Resident and free: given back when its decay has passed.
    pub dirty_bytes: usize,
    /// Resident, free blocks inside slabs, bins and depots.
    pub retained_bytes: usize,
    /// Address space mapped from the system.
    pub mapped_bytes: usize,
    /// Mapped separately, one block a mapping (a part of `live_bytes`).
    pub huge_bytes: usize,
    /// Highest `mapped_bytes` so far.
    pub mapped_bytes_peak: usize,
}
/// Reads the figures.
#[must_use]
pub fn read() -> Stats {
    Stats::default()
}
/// Writes everything as one JSON object, without allocating.
///
/// # Errors
/// What `sink` returns.
pub fn write_json(sink: &mut dyn core::fmt::Write) -> core::fmt::Result {
    sink.write_str("{}")
}
