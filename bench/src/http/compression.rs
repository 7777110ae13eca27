//! Compression beside nginx's: CPU a gigabyte and the ratio, level by level, at a constant rate of arrivals.
//!
//! Higher compression takes longer, so codings and levels are compared at equal ratio: each of nginx's
//! levels with the cheapest of Steppe's that makes content at least as short. One worker each, the same origin; the
//! CPU of passing content uncompressed is part of all figures. The floor is the minimal proxy ([`crate::floor`]) around
//! the library of Steppe's gzip.

mod client;
mod corpus;

use std::fmt::Write;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context, Result};

use self::client::{Load, Loaded};
use self::corpus::{CORPORA, Corpus};
use crate::machine;
use crate::page::Figures;
use crate::peer::{Setup, floor, loopback, nginx, version, write_config};
use crate::process;
use crate::server::{Launch, Server};
use crate::stats;
use crate::table::{Table, figure, grouped};

const ORIGIN: SocketAddr = loopback(28071);
const NGINX: SocketAddr = loopback(28072);
const STEPPE: SocketAddr = loopback(28073);
const FLOOR: SocketAddr = loopback(28074);
const ADMIN: SocketAddr = loopback(28907);

/// A coding and its level; `None`: content as it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Variant {
    server: &'static str,
    coding: Option<(&'static str, u8)>,
}

/// The figures of a variant with a corpus.
#[derive(Debug)]
struct Row {
    variant: Variant,
    corpus: &'static str,
    /// Compressed bytes for each byte of content.
    share: f64,
    /// CPU seconds for a gigabyte of content, in each round.
    cpu_s_per_gb: Vec<f64>,
    p99_us: Vec<f64>,
    completed: u64,
    errors: u64,
}

impl Variant {
    /// The path of the corpus in this variant.
    fn path(self, corpus: &Corpus) -> String {
        match self.coding {
            None => format!("/plain/{}", corpus.name),
            Some((coding, level)) => format!("/{coding}{level}/{}", corpus.name),
        }
    }

    fn name(self) -> String {
        match self.coding {
            None => "plain".to_owned(),
            Some((coding, level)) => format!("{coding} {level}"),
        }
    }
}

/// All variants: content as it is, and the levels of nginx, of Steppe and of the floor.
fn variants() -> Vec<Variant> {
    let of = |server, coding, levels: std::ops::RangeInclusive<u8>| {
        levels.map(move |level| Variant {
            server,
            coding: Some((coding, level)),
        })
    };
    let plain = SERVERS.map(|server| Variant {
        server,
        coding: None,
    });
    plain
        .into_iter()
        .chain(of("nginx", "gzip", 1..=6))
        .chain(of("steppe", "gzip", 1..=6))
        .chain(of("steppe", "br", 1..=5))
        .chain(of("steppe", "zstd", 1..=5))
        .chain(of("floor", "gzip", 1..=6))
        .collect()
}

/// All rows of a run.
pub(super) struct Compression(Vec<Row>);

/// Measures, and prints the tables.
///
/// # Errors
/// When something can't be started.
pub(super) async fn run(setup: &Setup, rounds: usize, seconds: u64) -> Result<Compression> {
    corpus::write(&setup.run_dir)?;
    let _origin = Server::start(&nginx_launch(setup, "corpus", ORIGIN)?, &setup.run_dir).await?;
    let nginx = Server::start(&nginx_launch(setup, "packing", NGINX)?, &setup.run_dir).await?;
    let steppe = Server::start(&steppe_launch(setup)?, &setup.run_dir).await?;
    let floor = Server::start(&floor_launch(setup)?, &setup.run_dir).await?;
    let variants = variants();
    let mut rows = Vec::new();
    for corpus in &CORPORA {
        for &variant in &variants {
            rows.push(Row::new(variant, corpus)?);
        }
    }
    for round in 0..rounds {
        for place in stats::order(rows.len(), round) {
            let row = &mut rows[place];
            let process = match row.variant.server {
                "nginx" => nginx.process(),
                "floor" => floor.process(),
                _ => steppe.process(),
            };
            row.measure(process, Duration::from_secs(seconds)).await?;
        }
        eprintln!("compression: round {} of {rounds}", round + 1);
    }
    print(&rows);
    Ok(Compression(rows))
}

impl Compression {
    /// True when every response was whole.
    pub(super) fn is_valid(&self) -> bool {
        self.0.iter().all(|row| row.errors == 0)
    }

    /// The smallest content with some levels: a column for each server.
    pub(super) fn page_table(&self) -> Table {
        let columns = SERVERS.map(|server| match server {
            "steppe" => (server, "Steppe".to_owned()),
            other => (other, other.to_owned()),
        });
        let corner = "% left / CPU seconds a GB / of it encoding / p99, µs ↓";
        let mut figures = Figures::new(corner, columns.into(), &[]);
        let cells = |coding| move |server: &str| self.cell(server, coding);
        figures.row("not compressed", cells(None));
        for (label, coding, level) in ON_PAGE {
            figures.row(label, cells(Some((coding, level))));
        }
        figures.into_table()
    }

    fn cell(&self, server: &str, coding: Option<(&str, u8)>) -> String {
        let Self(rows) = self;
        let is_it = |row: &&Row| {
            let Variant {
                server: of,
                coding: with,
            } = row.variant;
            row.corpus == CORPORA[0].name && of == server && with == coding
        };
        let Some(row) = rows.iter().find(is_it) else {
            return String::new();
        };
        let p99_us = grouped(stats::median(&row.p99_us), 0);
        let figures = [row.share * 100.0, row.cpu(), encoding(rows, row)];
        let figures = figures.map(|figure| grouped(figure, 1));
        format!("{} / {p99_us}", figures.join(" / "))
    }
}

const SERVERS: [&str; 3] = ["steppe", "nginx", "floor"];

/// Codings and levels of the page.
const ON_PAGE: [(&str, &str, u8); 6] = [
    ("gzip 1", "gzip", 1),
    ("gzip 5 (default)", "gzip", 5),
    ("zstd 1", "zstd", 1),
    ("zstd 3 (default)", "zstd", 3),
    ("br 1", "br", 1),
    ("br 4 (default)", "br", 4),
];

impl Row {
    fn new(variant: Variant, corpus: &Corpus) -> Result<Self> {
        let load = Self::load(variant, corpus);
        let bytes = client::content_bytes(&load)?;
        Ok(Self {
            variant,
            corpus: corpus.name,
            share: bytes as f64 / corpus.bytes as f64,
            cpu_s_per_gb: Vec::new(),
            p99_us: Vec::new(),
            completed: 0,
            errors: 0,
        })
    }

    fn load(variant: Variant, corpus: &Corpus) -> Load {
        let address = match variant.server {
            "nginx" => NGINX,
            "floor" => FLOOR,
            _ => STEPPE,
        };
        let coding = variant.coding.map_or("identity", |(coding, _)| coding);
        let path = variant.path(corpus);
        let request =
            format!("GET {path} HTTP/1.1\r\nHost: {address}\r\nAccept-Encoding: {coding}\r\n\r\n");
        Load {
            address,
            request,
            rate: corpus.rate,
        }
    }

    async fn measure(&mut self, process: u32, duration: Duration) -> Result<()> {
        let corpus = CORPORA.iter().find(|corpus| corpus.name == self.corpus);
        let corpus = corpus.context("a corpus of this name")?;
        let load = Self::load(self.variant, corpus);
        let before = process::cpu(process)?;
        let loaded = tokio::task::spawn_blocking(move || client::run(&load, duration)).await?;
        let used = process::cpu(process)?.since(&before);
        let Loaded {
            completed,
            errors,
            p99_us,
        } = loaded;
        let gigabytes = completed as f64 * corpus.bytes as f64 / 1e9;
        self.cpu_s_per_gb.push(used.total.as_secs_f64() / gigabytes);
        self.p99_us.push(p99_us);
        self.completed += completed;
        self.errors += errors;
        Ok(())
    }

    fn cpu(&self) -> f64 {
        stats::median(&self.cpu_s_per_gb)
    }
}

fn print(rows: &[Row]) {
    println!(
        "\nCompression, one worker each; CPU of all that is done to a gigabyte of content, and of it encoding; \
         the p99 beside the server's own of the same content as it is, round by round"
    );
    let mut table = Table::new(&[
        "content", "server", "coding", "left %", "CPU s/GB", "encoding", "p99 µs", "of plain",
        "errors",
    ]);
    for row in rows {
        table.row(vec![
            row.corpus.to_owned(),
            row.variant.server.to_owned(),
            row.variant.name(),
            figure(row.share * 100.0, 1),
            figure(row.cpu(), 2),
            figure(encoding(rows, row), 2),
            figure(stats::median(&row.p99_us), 0),
            interval(&row.p99_us, &plain(rows, row).p99_us),
            row.errors.to_string(),
        ]);
    }
    print!("{}", table.to_markdown());
    println!(
        "\nAt equal ratio: the cheapest of Steppe's levels that leaves no more than nginx's gzip, round by round; \
         the floor is the least proxy at that level of gzip"
    );
    let mut table = Table::new(&[
        "content",
        "nginx",
        "steppe gzip",
        "CPU ratio",
        "of encoding",
        "floor's",
        "best",
        "CPU ratio",
        "of encoding",
    ]);
    for reference in rows.iter().filter(|row| is_reference(row)) {
        let best = |coding: Option<&str>| cheapest(rows, reference, coding);
        let to_nginx = |row: &Row| interval(&row.cpu_s_per_gb, &reference.cpu_s_per_gb);
        let told = |row: Option<&Row>| match row {
            Some(row) => [
                row.variant.name(),
                to_nginx(row),
                figure(encoding(rows, row) / encoding(rows, reference), 2),
            ],
            None => ["-", "-", "-"].map(str::to_owned),
        };
        let gzip = best(Some("gzip"));
        let floor = gzip.map(|row| find(rows, "floor", row.variant.coding, row.corpus));
        let floor = floor.map_or_else(|| "-".to_owned(), to_nginx);
        let cells = [reference.corpus.to_owned(), reference.variant.name()];
        let cells = [&cells[..], &told(gzip), &[floor], &told(best(None))].concat();
        table.row(cells);
    }
    print!("{}", table.to_markdown());
}

/// The median of the ratios of each round, with its 95 % interval.
fn interval(values: &[f64], reference: &[f64]) -> String {
    let ratios = stats::ratios(values, reference);
    let (low, high) = stats::median_interval(&ratios);
    let [median, low, high] = [stats::median(&ratios), low, high].map(|ratio| figure(ratio, 2));
    format!("{median} ({low} to {high})")
}

/// CPU of a row beyond that of the same server and content without a coding.
fn encoding(rows: &[Row], row: &Row) -> f64 {
    row.cpu() - plain(rows, row).cpu()
}

/// The row of the same content and server, without a coding.
fn plain<'r>(rows: &'r [Row], row: &Row) -> &'r Row {
    find(rows, row.variant.server, None, row.corpus)
}

/// The row of one of the [`variants`].
fn find<'r>(
    rows: &'r [Row],
    server: &'static str,
    coding: Option<(&'static str, u8)>,
    corpus: &str,
) -> &'r Row {
    let variant = Variant { server, coding };
    let mut rows = rows.iter();
    let row = rows.find(|row| row.variant == variant && row.corpus == corpus);
    row.expect("each server has these")
}

fn is_reference(row: &Row) -> bool {
    row.variant.server == "nginx" && row.variant.coding.is_some()
}

/// Steppe's row with the least CPU among those whose content is at least as short as that of `than`.
fn cheapest<'r>(rows: &'r [Row], than: &Row, coding: Option<&str>) -> Option<&'r Row> {
    /// Shares count as equal up to a tenth of a percent of the content.
    const EQUAL: f64 = 0.001;
    let is_it = |row: &&Row| {
        let of_coding = row
            .variant
            .coding
            .is_some_and(|(name, _)| coding.is_none_or(|it| it == name));
        row.variant.server == "steppe"
            && of_coding
            && row.corpus == than.corpus
            && row.share <= than.share + EQUAL
    };
    rows.iter()
        .filter(is_it)
        .min_by(|a, b| a.cpu().total_cmp(&b.cpu()))
}

fn nginx_launch(setup: &Setup, role: &str, address: SocketAddr) -> Result<Launch> {
    let program = machine::program("nginx")?;
    std::fs::create_dir_all(setup.run_dir.join(format!("{role}-temp")))?;
    let preamble = nginx::preamble(setup, role, setup.connections_max);
    let folder = corpus::folder(&setup.run_dir);
    let mut text = format!(
        "{preamble}
  types {{ application/json json; text/html html; }}
  open_file_cache max=16 inactive=1h;
  open_file_cache_valid 1h;
"
    );
    if address == ORIGIN {
        let _ = write!(
            text,
            "  server {{ listen {address}; location ~ ^/[^/]+/(?<name>.+)$ {{ alias {}/$name; }} }}\n}}\n",
            folder.display()
        );
    } else {
        let proxy =
            "proxy_pass http://corpus; proxy_http_version 1.1; proxy_set_header Connection \"\";";
        let _ = write!(
            text,
            "  upstream corpus {{ server {ORIGIN}; keepalive 64; }}\n  server {{ listen {address};\n\
             \x20   gzip_types application/json; gzip_min_length 256; gzip_proxied any;\n\
             \x20   proxy_buffers 64 16k; proxy_buffer_size 16k;\n\
             \x20   location / {{ {proxy} }}\n"
        );
        for level in 1..=6 {
            let _ = writeln!(
                text,
                "    location /gzip{level}/ {{ gzip on; gzip_comp_level {level}; {proxy} }}"
            );
        }
        text += "  }\n}\n";
    }
    let config = write_config(setup, &format!("{role}.conf"), &text)?;
    Ok(Launch {
        name: role.to_owned(),
        version: version(&program, &["-v"])?,
        program,
        arguments: nginx::arguments(setup, &config),
        environment: Vec::new(),
        address,
    })
}

fn floor_launch(setup: &Setup) -> Result<Launch> {
    let mut floor = floor::proxy(setup, FLOOR, ORIGIN)?;
    floor.version += ", with libdeflate";
    floor.arguments.push("--gzip".into());
    Ok(floor)
}

fn steppe_launch(setup: &Setup) -> Result<Launch> {
    let program: PathBuf = crate::peer::steppe::program(setup)?;
    let mut text = format!(
        "[node]\nworkers = 1\nmemory_budget = \"256MiB\"\n[admin]\nlisten = \"{ADMIN}\"\n\
         [log]\naccess = \"off\"\n[[http.listener]]\nlisten = \"{STEPPE}\"\nprotocols = [\"h1\"]\n\
         [http.upstream.corpus]\nservers = [\"{ORIGIN}\"]\n\
         [[http.route]]\nname = \"plain\"\nupstream = \"corpus\"\n"
    );
    let ours = variants();
    let ours = ours.iter().filter(|variant| variant.server == "steppe");
    for (coding, level) in ours.filter_map(|variant| variant.coding) {
        let _ = write!(
            text,
            "[http.filter.{coding}{level}]\nkind = \"compress\"\nalgorithms = [\"{coding}\"]\n\
             levels = {{ {coding} = {level} }}\nbreach = \"off\"\nmin_bytes = 256\n\
             [[http.route]]\nname = \"{coding}{level}\"\npath = \"/{coding}{level}/{{rest*}}\"\n\
             filters = [\"{coding}{level}\"]\nupstream = \"corpus\"\n"
        );
    }
    let config = write_config(setup, "packing.toml", &text)?;
    Ok(Launch {
        name: "steppe-packing".to_owned(),
        version: version(&program, &["version"])?,
        program,
        arguments: vec!["run".into(), "-c".into(), config.into()],
        environment: Vec::new(),
        address: STEPPE,
    })
}
