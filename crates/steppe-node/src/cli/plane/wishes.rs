//! Options of a call that several commands share.

use std::time::Duration;

use clap::Args;
use steppe_plane::frame::Queueing;

use crate::config::duration;

/// Options of a call besides its body.
#[derive(Debug, Args)]
pub(super) struct Wishes {
    /// Deadline of each call, over all hops
    #[arg(long, value_name = "DURATION", value_parser = duration)]
    pub(super) deadline: Option<Duration>,
    /// Requests an immediate refusal instead of queueing
    #[arg(long)]
    no_queue: bool,
}

impl Wishes {
    pub(super) fn queueing(&self) -> Queueing {
        match self.no_queue {
            true => Queueing::Never,
            false => Queueing::Allowed,
        }
    }
}
