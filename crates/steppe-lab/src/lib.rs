//! A soak lab for any server, with a verdict on whether its memory stays flat.
//!
//! A run joins load, the memory of a process tree, sockets, system calls and latency on one clock, and writes them to
//! a folder of plain files; statistics judge them against a budget. The same parts serve other programs as a library:
//! [`stats`] judges series, [`observe`] measures processes, [`load`] drives a server, [`run`] joins them, [`report`]
//! shows the result.
//!
//! The lab knows no server in particular: other protocols are driven by the `command` load.
//!
//! # Map of files
//! A folder has the submodules and tests of the file beside it; indented entries are in the folder of the file above
//! them.
//!
//! - `main.rs`: binary `steppe-lab`
//! - `cli.rs`, `cli/`: command line: `soak`, `try`, and the commands that run a scenario (`runs.rs`)
//! - `scenario.rs`, `scenario/`: scenario file as valid types: keys, errors, loads
//! - `target.rs`: started processes, and targets that already run
//!   - `running.rs`: target found by process id or control group
//!   - `ready.rs`, `ask.rs`: readiness check; HTTP requests to the target
//!   - `exposition.rs`: parser of Prometheus metrics
//!   - `guard.rs`: cleanup of processes after the lab is killed
//! - `load.rs`: load generators
//!   - `plan.rs`, `endpoint.rs`, `tls.rs`: preparation of a load; addresses; TLS settings
//!   - `source.rs`, `generated.rs`, `command.rs`, `command/`: one load: generated, or an external program and its line
//!     protocol
//!   - `thread.rs`, `client.rs`, `usage.rs`: generator thread; its workers' trait; its CPU use
//!   - `pacer.rs`, `schedule.rs`: closed and open loop; arrival times
//!   - `http1.rs`, `http2.rs`, `dns.rs`, `dns/`: protocols
//!   - `request.rs`: request of an HTTP load
//!   - `tally.rs`: counts and latency histograms
//!   - `error.rs`: errors of a load
//! - `observe.rs`: measurement of a process tree
//!   - `tree.rs`: processes of the target
//!   - `stat.rs`, `proc_file.rs`: parsers and readers of `/proc`
//!   - `perf.rs`, `switches.rs`: performance counters; context switches
//!   - `sockets.rs`, `sockets/`: TCP sockets by state
//!   - `cgroup.rs`, `cgroup/`: control groups
//!   - `handles.rs`: descriptors, mappings, tasks, zombies
//!   - `places.rs`: memory and descriptors by mapping, file and peer
//!   - `capability.rs`: measurements available for a target
//! - `profile.rs`, `profile/`: parsers of heap profiles: Go, Java, Node.js, Python
//! - `run.rs`: execution of a scenario
//!   - `plan.rs`, `session.rs`, `session/`: order of runs and steps; soak, cycle, A/B and calibration runs
//!   - `environment.rs`: services, target and control group of a run
//!   - `sampler.rs`: sampling thread
//!   - `point.rs`: one row of measurements
//!   - `collect.rs`: forced garbage collection in quiet moments
//!   - `metrics.rs`: metrics of the target
//!   - `control.rs`: speed of the machine during a run
//!   - `data_quality.rs`: invalid measurements: saturated generator, failed operations, restless quiet moments
//!   - `looking.rs`: interim looks of a run without fixed length
//!   - `growth_places.rs`, `growth_profiles.rs`: growth by mapping; growth by allocation site
//!   - `profiler.rs`, `profiler/`: heap profiles from the target's runtime
//!   - `leaks.rs`, `leaks/`: leak checkers: memcheck, LeakSanitizer
//!   - `missing.rs`: missing files of a scenario
//!   - `mask.rs`: masking of secrets
//!   - `manifest.rs`: manifest of a run
//!   - `dashboard.rs`, `progress.rs`: live display; progress lines
//! - `record.rs`, `record/`: file formats of a run's folder: manifest, epochs, samples, metrics, verdict
//! - `stats.rs`: statistics, pure functions
//!   - `drift.rs`, `drift/`: drift of a series against a budget
//!   - `theil_sen.rs`, `redraw.rs`, `student.rs`: slope; its error by block bootstrap; t distribution
//!   - `pairs.rs`: ratio of two variants
//!   - `shape.rs`, `teeth.rs`: plateaus and stairs; saw-tooth series of garbage collectors
//!   - `holm.rs`, `looks.rs`: corrections for many series and for interim looks
//! - `judge.rs`: verdict of a run
//!   - `series.rs`: judged series, and their budgets
//!   - `growth.rs`, `attribution.rs`: drift findings; leak or retention
//!   - `kept.rs`, `rises.rs`, `metrics.rs`: limits on figures; required counters; metrics of the target
//!   - `pairs.rs`: comparison of two variants
//!   - `looks.rs`, `undecided.rs`: interim verdicts; run length that would decide
//!   - `machine.rs`: change of the machine's speed
//! - `report.rs`: reports of a run
//!   - `view.rs`, `tracks.rs`, `thin.rs`: data of a report; series for charts; downsampling
//!   - `page.rs`, `markdown.rs`, `junit.rs`, `terminal.rs`: HTML, Markdown, JUnit and terminal output
//!   - `template.rs`, `templates/`, `escape.rs`: templates with escaping
//!   - `charts.rs`, `charts/`, `plot.rs`, `scale.rs`: charts as SVG
//!   - `text_plot.rs`: charts as text
//!   - `figure.rs`, `metric.rs`: formatting of figures; columns, names and units of metrics
//!   - `explain.rs`: derivation of a finding
//!   - `unjudged.rs`: measurements of a run that ended early
//! - `doctor.rs`, `doctor/`: `doctor`: measurements that this machine allows
//! - `watch.rs`, `watch/`: `watch`: live view of a running process
//! - `limits.rs`: every bound of the lab, with its reason

#![forbid(unsafe_code)]

pub mod cli;
pub mod doctor;
pub mod judge;
pub mod limits;
pub mod load;
pub mod observe;
pub mod profile;
pub mod record;
pub mod report;
pub mod run;
pub mod scenario;
pub mod stats;
pub mod target;
pub mod watch;
