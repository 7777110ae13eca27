//! One run of the bench: servers start, rounds pass, tables are printed.

use std::path::PathBuf;

use anyhow::{Context, Result, ensure};

use super::fleet::{self, Fleet, Stopped};
use super::h2::{self, Wire};
use super::measure::{self, Contestant, Results};
use super::phase::Phase;
use super::{Bench, FILES_SPARE, Options, Plan, before, compression, costs, page, report, tls};
use crate::before::schedule::Schedule;
use crate::load::ghz::Ghz;
use crate::load::transfer::Direction;
use crate::load::wrk;
use crate::machine;
use crate::page::Page;
use crate::peer::credentials::Credentials;
use crate::peer::{Setup, Transport, go, origin, steppe};
use crate::server::Server;

/// Runs the bench and prints its tables; whether the run was valid.
///
/// # Errors
/// When something can't be started, or a port is taken.
pub async fn run(options: &Options) -> Result<bool> {
    let (mut plan, mut skipped) = (options.plan(), Vec::new());
    plan.leave_out_without_h2load(&mut skipped);
    let open = |path: &PathBuf| {
        let measured = page::measured(&plan.phases, &options.proxies());
        Page::open(path, &page::MARKS, &measured)
    };
    let page = options.page.as_ref().map(open).transpose()?;
    let setup = prepare(options, &mut plan)?;
    let _grpc_server;
    let mut ghz = None;
    if plan.phases.contains(&Phase::H2Grpc) {
        match prepare_grpc(&setup).await {
            Ok(ready) => (ghz, _grpc_server) = (Some(ready.0), ready.1),
            Err(error) => plan.leave_out(Phase::H2Grpc, &error, &mut skipped),
        }
    }
    let bench = Bench {
        wrk: wrk::Files::create(&setup.run_dir)?,
        ghz,
        plan,
        setup,
    };
    let origin = origin::prepare(&bench.setup)?;
    let _origin = Server::start(&origin, &bench.setup.run_dir).await?;
    let mut fleets = Vec::new();
    for transport in bench.plan.transports() {
        fleets.push(Fleet::start(transport, options, &bench.setup, &mut skipped).await?);
    }
    let machine = machine::describe();
    let mut schedule = options.schedule();
    for round in 0..bench.plan.rounds {
        run_round(&mut fleets, &bench, &mut schedule, round).await?;
    }
    let plain = |fleet: &&mut Fleet| fleet.transport == Transport::Plain;
    for fleet in fleets.iter_mut().filter(plain) {
        for (contestant, results) in fleet.contestants.iter_mut().zip(&mut fleet.results) {
            measure::syscalls(contestant, results, &bench).await?;
        }
    }
    // All are stopped before the first one is started anew.
    let stopped: Vec<Stopped> = fleets.into_iter().map(Fleet::stop).collect();
    let mut comparisons = Vec::new();
    for stopped in &stopped {
        comparisons.extend(before::compare(stopped, &bench.setup).await);
    }
    let mut fleets = run_idle(stopped, &bench).await?;
    fleets.comparisons = comparisons;
    let mut is_valid = fleets.is_valid();
    let mut own = page::Own::default();
    if bench.plan.phases.contains(&Phase::Compression) {
        let (rounds, seconds) = (bench.plan.rounds, bench.plan.seconds.div_ceil(2));
        let compression = compression::run(&bench.setup, rounds, seconds).await?;
        is_valid &= compression.is_valid();
        own.compression = Some((rounds, compression.page_table()));
    }
    if bench.plan.phases.contains(&Phase::Costs) {
        let rounds = bench.plan.rounds * costs::ROUNDS_EACH;
        let costs = costs::run(&bench.setup, rounds).await?;
        is_valid &= costs.is_valid();
        own.costs = Some((rounds, costs.page_table()));
    }
    report::print(&fleets, &skipped, &bench.plan, &machine);
    if let Some(page) = page.filter(|_| is_valid) {
        let names = page::measured(&bench.plan.phases, &options.proxies());
        let mut sections = page::sections(&names, &fleets, bench.plan.rounds);
        sections.extend(own.sections());
        page.write(&sections)?;
    }
    Ok(is_valid)
}

/// The server that is called, and what calls it.
async fn prepare_grpc(setup: &Setup) -> Result<(Ghz, Server)> {
    let ghz = Ghz::create(go::ghz(setup)?, &setup.run_dir)?;
    let server = go::prepare_grpc(setup)?;
    Ok((ghz, Server::start(&server, &setup.run_dir).await?))
}

/// Folders, certificates, and file limits that carry the idle connections, or fewer of those.
fn prepare(options: &Options, plan: &mut Plan) -> Result<Setup> {
    machine::program("wrk")?;
    let (root, target_dir) = machine::workspace()?;
    let cache_dir = target_dir.join("bench");
    let run_dir = cache_dir.join("run");
    std::fs::create_dir_all(&run_dir)
        .with_context(|| format!("cannot create {}", run_dir.display()))?;
    let proxies = options.proxies().len();
    let kept = |with: &Transport| proxies * usize::from(with.keepalive());
    // A proxy that is idle keeps what it has.
    let kept: usize = plan.transports().iter().map(kept).sum();
    let files = kept.max(2 * plan.connections()) + FILES_SPARE;
    let files_max = machine::raise_file_limit(u64::try_from(files)?);
    // A proxy keeps a file free for the server's side of each client, and takes no more clients.
    let carried = usize::try_from(files_max)?.saturating_sub(FILES_SPARE) / 2;
    if carried < plan.idle {
        eprintln!("the limit of {files_max} open files carries {carried} idle connections only");
        plan.idle = carried;
    }
    let mut setup = Setup {
        credentials: Credentials::create(&run_dir.join("certificates"))?,
        run_dir,
        target_dir,
        cache_dir,
        root,
        connections_max: u64::try_from(plan.connections() + FILES_SPARE / 2)?,
        origin_connections_max: u64::try_from(kept + FILES_SPARE / 2)?,
        files_max,
        steppe: options.steppe.clone(),
        before: None,
    };
    if let Some(before) = &options.before {
        steppe::place_builds(&mut setup, before)?;
    }
    Ok(setup)
}

/// Each phase runs all proxies before the next one begins: pairs are as close in time as can be.
async fn run_round(
    fleets: &mut [Fleet],
    bench: &Bench,
    schedule: &mut Schedule,
    round: usize,
) -> Result<()> {
    let in_rounds = |phase: &&Phase| !phase.transports().is_empty();
    for phase in bench.plan.phases.iter().filter(in_rounds) {
        let mut runs = Vec::new();
        for (at, fleet) in fleets.iter().enumerate() {
            let contestants = fleet.contestants.iter().enumerate();
            let taken = contestants
                .filter(|(_, one)| phase.takes(one.subject.proxy, one.subject.transport));
            runs.extend(taken.map(|(index, _)| (at, index)));
        }
        ensure!(!runs.is_empty(), "no proxy to run");
        for place in schedule.order(runs.len(), round) {
            let (at, index) = runs[place];
            let fleet = &mut fleets[at];
            let (contestant, results) = (&mut fleet.contestants[index], &mut fleet.results[index]);
            contestant.server.ensure_alive()?;
            if schedule.is_mirrored() {
                let launch = &contestant.subject.launch;
                let run_dir = &bench.setup.run_dir;
                contestant.server.restart(launch, run_dir).await?;
            }
            let (round, rounds) = (round + 1, bench.plan.rounds);
            eprint!("round {round} of {rounds}: {:<8} ", results.name);
            run_phase(*phase, contestant, results, bench).await?;
        }
    }
    Ok(())
}

async fn run_phase(
    phase: Phase,
    contestant: &Contestant,
    results: &mut Results,
    bench: &Bench,
) -> Result<()> {
    match phase {
        Phase::Saturation
        | Phase::TlsSaturation
        | Phase::TlsUpstream
        | Phase::H2Upstream
        | Phase::Cached => measure::saturation(contestant, results, bench).await,
        Phase::OpenLoop => measure::open_loop(contestant, results, &bench.plan).await,
        Phase::Download => {
            measure::transfer(contestant, results, &bench.plan, Direction::Download).await
        }
        Phase::Upload => {
            measure::transfer(contestant, results, &bench.plan, Direction::Upload).await
        }
        Phase::TlsBodies => {
            measure::transfer(contestant, results, &bench.plan, Direction::Download).await?;
            eprint!("{:<24} ", "");
            measure::transfer(contestant, results, &bench.plan, Direction::Upload).await
        }
        Phase::TlsHandshakes => tls::handshakes(contestant, results, bench).await,
        Phase::TlsResumed => tls::resumed(contestant, results, bench).await,
        Phase::H2Tls => h2::requests(contestant, results, bench, Wire::Tls).await,
        Phase::H2Clear => h2::requests(contestant, results, bench, Wire::Clear).await,
        Phase::H2Bodies => h2::bodies(contestant, results, bench).await,
        Phase::H2Grpc => h2::grpc(contestant, results, bench).await,
        Phase::Compression | Phase::Costs => Ok(()),
    }
}

/// Measures idle connections of clients; idle connections to an origin are left out.
async fn run_idle(stopped: Vec<Stopped>, bench: &Bench) -> Result<fleet::Outcome> {
    let mut outcome = fleet::Outcome::default();
    for mut fleet in stopped {
        let has_idle = matches!(
            fleet.transport,
            Transport::Plain | Transport::TlsDownstream | Transport::Http2
        );
        if bench.plan.idle > 0 && has_idle {
            for (subject, results) in fleet.subjects.into_iter().zip(&mut fleet.results) {
                measure::idle(subject, results, bench).await?;
            }
        }
        outcome.insert(fleet.transport, fleet.results);
    }
    Ok(outcome)
}
