//! Steppe beside its build of another commit: CPU and instructions a query.
//!
//! Instructions are those of queries one after another: how many a worker finds ready at once, and
//! with it what each takes, then hangs on the machine as little as can be. A worker has work by the
//! clock too, so that counts lie further apart where other programs slow it down.

use std::path::Path;

use anyhow::Result;

use super::ask::Client;
use super::contestant::{Contestant, Phase};
use super::peer::Peer;
use crate::before::comparison::{Comparison, Costs, Instructions};
use crate::before::counts::Counts;
use crate::callgrind::Counted;

/// Names that the cache is to have.
const NAMES: u64 = 1_000;
/// Queries of a count.
const QUERIES: u64 = 5_000;

/// A forwarder under callgrind.
struct Counting {
    server: Counted,
    client: Client,
    /// Names that were asked for so far, each once.
    asked: u64,
}

/// Compares both builds where both ran, and stops them.
pub async fn compare(contestants: &mut [Contestant], folder: &Path) -> Vec<Comparison> {
    let place = |peer| contestants.iter().position(|one| one.peer == peer);
    let (Some(now), Some(before)) = (place(Peer::Steppe), place(Peer::Before)) else {
        return Vec::new();
    };
    let mut counts = [now, before].map(|_| [Counts::default(), Counts::default()]);
    for (counts, at) in counts.iter_mut().zip([now, before]) {
        let contestant = &mut contestants[at];
        contestant.server.stop();
        match count(contestant, folder).await {
            Ok(counted) => *counts = counted,
            Err(error) => eprintln!("{}: no instructions: {error:#}", contestant.peer.name()),
        }
    }
    let [now_counts, before_counts] = counts;
    let phases = [Phase::Cached, Phase::Miss].into_iter();
    let counts = now_counts.into_iter().zip(before_counts);
    let cpu_us = |at: usize, phase| contestants[at].all(phase, |run| run.cpu_us);
    let comparison = |(phase, (now_counts, before_counts))| Comparison {
        name: match phase {
            Phase::Miss => "miss".to_owned(),
            _ => "cached".to_owned(),
        },
        unit: "µs",
        costs: Costs {
            now: cpu_us(now, phase),
            before: cpu_us(before, phase),
        },
        instructions: Instructions::of(now_counts, before_counts),
    };
    phases.zip(counts).map(comparison).collect()
}

/// Instructions a query out of the cache, and of a miss.
async fn count(contestant: &Contestant, folder: &Path) -> Result<[Counts; 2]> {
    let name = contestant.peer.name();
    let mut counting = Counting {
        server: Counted::start(&contestant.launch, folder).await?,
        client: Client::new(contestant.peer.address()).await?,
        asked: 0,
    };
    let cached = counting.count(Phase::Cached).await?;
    let miss = counting.count(Phase::Miss).await?;
    let (cached_each, miss_each) = (cached.median(), miss.median());
    eprintln!("counting: {name}: {cached_each:.0} instructions cached, {miss_each:.0} a miss");
    Ok([cached, miss])
}

impl Counting {
    /// Counts until it has settled.
    async fn count(&mut self, phase: Phase) -> Result<Counts> {
        // After that the cache has the names, and what is done once for all is done.
        self.counted(phase, NAMES).await?;
        let mut counts = Counts::default();
        while !counts.is_settled() {
            counts.push(self.counted(phase, QUERIES).await? as f64 / QUERIES as f64);
        }
        Ok(counts)
    }

    async fn counted(&mut self, phase: Phase, queries: u64) -> Result<u64> {
        let names: Vec<String> = match phase {
            Phase::Miss => {
                let first = self.asked;
                self.asked += queries;
                let names = first..self.asked;
                names
                    .map(|number| format!("n{number:08}.miss.example"))
                    .collect()
            }
            _ => {
                let names = 0..queries;
                let names = names.map(|number| number % NAMES);
                names
                    .map(|number| format!("n{number:08}.cached.example"))
                    .collect()
            }
        };
        let work = self.client.ask(names);
        Ok(self.server.during(work).await?.0)
    }
}
