//! The readiness of the node for traffic.

use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};

/// Readiness for load balancers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum State {
    /// Some listeners are not open yet.
    Starting,
    /// The node serves.
    Ready,
    /// The node still serves, and drains soon: new requests should go elsewhere.
    Terminating,
    /// The node shuts down: exchanges in flight end, new ones should go elsewhere.
    Draining,
}

/// The node's state. Clones share it.
#[derive(Debug, Clone, Default)]
pub struct Readiness(Arc<AtomicU8>);

impl Readiness {
    /// Changes the state.
    pub fn set(&self, state: State) {
        self.0.store(state as u8, Ordering::Release);
    }

    /// The state now.
    #[must_use]
    pub fn state(&self) -> State {
        let stored = self.0.load(Ordering::Acquire);
        let state = State::ALL.into_iter().find(|state| *state as u8 == stored);
        state.unwrap_or(State::Starting)
    }
}

impl State {
    /// All states.
    pub const ALL: [Self; 4] = [
        Self::Starting,
        Self::Ready,
        Self::Terminating,
        Self::Draining,
    ];

    /// The state's word in responses.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Starting => "starting",
            Self::Ready => "ready",
            Self::Terminating => "terminating",
            Self::Draining => "draining",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_node_starts_unready_and_clones_share_its_state() {
        let readiness = Readiness::default();
        let other = readiness.clone();
        assert_eq!(other.state(), State::Starting);
        for state in State::ALL.into_iter().rev() {
            readiness.set(state);
            assert_eq!(other.state(), state);
        }
    }
}
