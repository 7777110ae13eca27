//! What a worker of a generator thread drives, whatever the protocol.

use super::tally::Failure;

/// One worker's way to do operations, one at a time.
///
/// An operation that is dropped half way (it took too long) leaves nothing behind that the next one
/// could take for its own.
pub(super) trait Client {
    async fn operate(&mut self) -> Result<(), Failure>;
}
