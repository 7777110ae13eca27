//! Placeholder until merge.
/// x
pub fn auto_warmup(count: u32) -> u32 {
    (count / 10).max(3).min(count.saturating_sub(2))
}
