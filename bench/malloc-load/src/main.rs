//! `steppe-malloc-load CASE UNITS [PAUSE_MS]`: runs a case once, and prints its figures.
//!
//! The bench preloads an allocator and starts this once for every figure. Arguments are positional,
//! since a parser of options would allocate more than some cases do.

use std::env;
use std::process::ExitCode;
use std::time::Duration;

use steppe_malloc_load::cases::CASES;
use steppe_malloc_load::meter::Meter;

fn main() -> ExitCode {
    let mut arguments = env::args().skip(1);
    let case = arguments.next().unwrap_or_default();
    let mut number = || arguments.next()?.parse::<u64>().ok();
    let (units, pause_ms) = (number(), number().unwrap_or(0));
    let known = CASES.iter().find(|(name, _, _)| *name == case);
    let (Some((_, _, run)), Some(units)) = (known, units) else {
        eprintln!("usage: steppe-malloc-load CASE UNITS [PAUSE_MS]; cases and their units:");
        for (name, unit, _) in CASES {
            eprintln!("  {name:<14} {unit}");
        }
        return ExitCode::from(2);
    };
    let mut meter = Meter::new(Duration::from_millis(pause_ms));
    run(&mut meter, units);
    meter.tell();
    ExitCode::SUCCESS
}
