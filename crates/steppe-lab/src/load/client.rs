//! Client of a worker of a generator thread, over all protocols.

use super::tally::Failure;

/// A client that does a worker's operations, one at a time.
///
/// An operation that is dropped half way (after its timeout) must leave nothing that the next one could
/// take for its own, such as a late response.
pub(super) trait Client {
    async fn operate(&mut self) -> Result<(), Failure>;
}
