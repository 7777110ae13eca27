//! A broken file costs little memory and time, with any kind of mistake: a reload reads it while the node serves
//! traffic.
//!
//! Memory is a property of a process, so each file is read by a process of its own: this test
//! binary, started again for the test `reads_one_file` alone.

use std::path::Path;
use std::time::Duration;
use std::{env, fs};

use rustix::time::{ClockId, clock_gettime};
use steppe_node::config::{self, Drawing, limits::FILE_BYTES_MAX};
use steppe_testkit::heavy;

use crate::this_program;

/// The variable with the path of the file that `reads_one_file` reads.
const FILE_VARIABLE: &str = "STEPPE_TEST_CONFIGURATION";

/// The memory to read a file with broken grammar, at most, beyond that of a small file.
const GRAMMAR_BYTES_MAX: u64 = 24 << 20;

/// The memory to read a file with broken keys and values, at most, beyond that of a small file.
const VALUES_BYTES_MAX: u64 = 52 << 20;

/// The memory to read a file of broken routes, at most, beyond that of a valid file of the same length.
const MISTAKES_BYTES_MAX: u64 = 8 << 20;

/// Processor time that comparisons ignore: it is mostly the start of a process.
const CPU_NOISE: Duration = Duration::from_millis(50);

/// The cost of reading a file.
#[derive(Debug, Clone, Copy)]
struct Cost {
    peak_bytes: u64,
    cpu: Duration,
}

/// Does nothing unless it is started by [`cost`].
#[test]
fn reads_one_file() {
    let Some(path) = env::var_os(FILE_VARIABLE) else {
        return;
    };
    let outcome = config::load(Path::new(&path)).expect("it can be read");
    let report = outcome.report.render(Drawing::Plain);
    let status = fs::read_to_string("/proc/self/status").expect("Linux");
    let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    let cpu = clock_gettime(ClockId::ProcessCPUTime);
    println!(
        "PEAK {}",
        peak.expect("a process has one")
            .trim()
            .trim_end_matches(" kB")
    );
    println!("CPU {}", cpu.tv_sec * 1_000_000_000 + cpu.tv_nsec);
    println!("REPORT {} bytes", report.len());
    println!("LAST {}", report.lines().last().unwrap_or("nothing"));
}

fn cost(name: &str, text: &str) -> Cost {
    let file = env::temp_dir().join(format!("steppe-{}-{name}", std::process::id()));
    fs::write(&file, text).expect("a temporary file");
    let output = this_program(module_path!(), "reads_one_file")
        .env(FILE_VARIABLE, &file)
        .output()
        .expect("this test starts again");
    fs::remove_file(&file).expect("it is there");
    let said = String::from_utf8(output.stdout).expect("text");
    assert!(output.status.success(), "{name}: {said}");
    let line = |what: &str| {
        let line = said.lines().find_map(|line| line.split_once(what));
        line.unwrap_or_else(|| panic!("{name}: {said}")).1
    };
    let number = |what: &str| line(what).parse::<u64>().expect("a number");
    let cost = Cost {
        peak_bytes: number("PEAK ") << 10,
        cpu: Duration::from_nanos(number("CPU ")),
    };
    println!("{name:24} {cost:?} {} {}", line("REPORT "), line("LAST "));
    cost
}

/// `line(0)`, `line(1)` and so on, up to `bytes`.
fn lines(bytes: usize, line: impl Fn(usize) -> String) -> String {
    let mut text = String::new();
    for index in 0.. {
        let line = line(index);
        if text.len() + line.len() > bytes {
            break;
        }
        text.push_str(&line);
    }
    text
}

fn nested(open: &str, close: &str, bytes: usize) -> String {
    let depth = bytes / (open.len() + close.len());
    format!("{}{}", open.repeat(depth), close.repeat(depth))
}

const SERVED: &str = "[[http.listener]]\nlisten = \"[::]:1\"\n[http.upstream.u]\nrespond = {}\n";

/// A file of upstreams, and of routes whose upstreams are called `prefix` and a number.
fn routes(bytes: usize, prefix: &str) -> String {
    let mut text = lines(bytes / 3, |n| {
        format!("[http.upstream.u{n}]\nrespond={{}}\n")
    });
    let route = |n| {
        let upstream = n % 1_000;
        format!("[[http.route]]\nname=\"a{n}\"\npath=\"/{n}\"\nupstream=\"{prefix}{upstream}\"\n")
    };
    text.push_str(&lines(bytes - bytes / 3 - 100, route));
    text.push_str("[[http.listener]]\nlisten = \"[::]:1\"\n");
    text
}

/// Files of about `bytes` that are read no further than their grammar, by name.
fn broken_grammar(bytes: usize) -> Vec<(&'static str, String)> {
    let words = lines(bytes, |n| format!("word{n} another {n}\n"));
    let lists = nested("[", "]", bytes);
    let value = "\n".repeat(bytes);
    vec![
        ("rubbish.toml", "x y\n".repeat(bytes / 4)),
        ("rubbish_of_words.toml", words),
        ("control.toml", "\u{1}]\n".repeat(bytes / 3)),
        ("open_brackets.toml", "[".repeat(bytes)),
        ("nested_lists.toml", format!("a={lists}")),
        ("dotted_key.toml", format!("{}a=1", "a.".repeat(bytes / 2))),
        ("one_line.toml", format!("a = \"{}\"\n", "x".repeat(bytes))),
        ("one_value.toml", format!("[node]\nworkers='''{value}'''")),
        ("rubbish.json", "}{".repeat(bytes / 2)),
        ("nested_lists.json", format!("{{\"a\":{lists}}}")),
    ]
}

/// Files of about `bytes` whose every value is read, by name.
fn broken_values(bytes: usize) -> Vec<(&'static str, String)> {
    let keys = lines(bytes, |n| format!("unknown-key-{n} = 1\n"));
    let fields = lines(bytes, |n| format!("x-field-name-{n} = 1\n"));
    let types = "1234567,\n".repeat(bytes / 9);
    let many = "123456,\n".repeat(bytes / 8);
    let list = "12345,".repeat(bytes / 6);
    let members = lines(bytes, |n| format!("\"key{n}\":1,"));
    let again = "\"k\": 1,\n".repeat(bytes / 8);
    let listeners = "[[http.listener]]\nlisten = 1 # not an address\n".repeat(bytes / 46);
    vec![
        ("unknown_keys.toml", keys),
        ("duplicates.toml", "a_name = 1234567\n".repeat(bytes / 17)),
        ("types.toml", format!("[http]\ntrusted_proxies=[{types}]")),
        ("listeners.toml", listeners),
        ("many_lines.toml", format!("[node]\nworkers=[\n{many}]")),
        (
            "fields.toml",
            format!("[http.upstream.a.respond.headers]\n{fields}"),
        ),
        ("long_list.json", format!("{{\"a\":[{list}0]}}")),
        ("unknown_keys.json", format!("{{{members}\"z\":1}}")),
        ("duplicates.json", format!("{{{again}\"z\":1}}")),
    ]
}

/// Files of about `bytes` with many routes, by name.
fn broken_routes(bytes: usize) -> Vec<(&'static str, String)> {
    let route = |n| format!("[[http.route]]\nname=\"a{n}\"\nhost=\"b{n}\"\nupstream=\"u\"\n");
    let hosts = lines(bytes, route);
    vec![
        ("references.toml", routes(bytes, "v")),
        ("hosts.toml", format!("{SERVED}{hosts}[x]\n")),
    ]
}

/// Asserts that files of half the length and of the whole stay below `peak_bytes_max`, and take linear time.
fn judge(make: impl Fn(usize) -> Vec<(&'static str, String)>, peak_bytes_max: u64) {
    let bytes = FILE_BYTES_MAX - 200;
    for ((name, half), (_, whole)) in make(bytes / 2).into_iter().zip(make(bytes)) {
        let is_long = (FILE_BYTES_MAX * 9 / 10..=FILE_BYTES_MAX).contains(&whole.len());
        assert!(is_long, "{name}: {} bytes", whole.len());
        let text_of = [half, whole];
        let [half, whole] = text_of.each_ref().map(|text| cost(name, text));
        let peak = half.peak_bytes.max(whole.peak_bytes);
        assert!(
            peak < peak_bytes_max,
            "{name}: {peak} bytes, at most {peak_bytes_max}"
        );
        // Quadratic work would take four times as long, each time; on a busy machine a single run may do so by chance.
        let mut cpu = [half.cpu, whole.cpu];
        let is_linear = |[half, whole]: [Duration; 2]| whole < 3 * half.max(CPU_NOISE);
        for _ in 0..3 {
            if !is_linear(cpu) {
                cpu = text_of.each_ref().map(|text| cost(name, text).cpu);
            }
        }
        assert!(is_linear(cpu), "{name}: {cpu:?}");
    }
}

#[test]
fn a_broken_file_costs_little() {
    let _alone = heavy();
    let small = cost("small.toml", SERVED);
    let valid = cost("valid.toml", &routes(FILE_BYTES_MAX, "u"));
    judge(broken_grammar, small.peak_bytes + GRAMMAR_BYTES_MAX);
    judge(broken_values, small.peak_bytes + VALUES_BYTES_MAX);
    judge(broken_routes, valid.peak_bytes + MISTAKES_BYTES_MAX);
}
