//! The cost of single features of a route: CPU time of a request with the feature, less that without it.
//!
//! A feature costs a few per cent of a request, and a machine's pace wanders by more than that. So a route with a
//! feature and a route without it get short loads next to each other, many times over; the figure is the median of the
//! differences within each round, with its interval. Both are sent the same requests. One process serves both routes,
//! except for the number of routes, so memory and code lie in the same places too. The check of a signature is compared
//! with the library that verifies it, called by the minimal proxy ([`crate::floor`]): in a loop by itself, the library
//! would find all of its code and tables in the cache, which no request does.

mod tokens;

use std::fmt::Write;
use std::net::SocketAddr;
use std::ops::Range;
use std::path::Path;

use anyhow::{Context, Result};

use self::tokens::Tokens;
use super::CONNECTIONS;
use crate::load::wrk;
use crate::peer::{Setup, floor, loopback, origin, steppe, version, write_config};
use crate::process;
use crate::server::{Launch, Server};
use crate::stats;
use crate::table::{Table, figure, grouped};

/// A node with one route, one with a thousand, one with a route for each feature; and the minimal proxy, which may
/// verify tokens.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Node {
    OneRoute,
    ManyRoutes,
    Features,
    Floor,
    VerifyingFloor,
}

/// The token that requests carry.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Carry {
    Nothing,
    /// The same token.
    Token,
    /// Another token than the last thousand requests.
    NewToken,
}

/// A load that is measured: its node, its path and its token.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Load {
    node: Node,
    path: &'static str,
    carry: Carry,
}

/// Two loads whose difference is the cost of a feature.
struct Feature {
    name: &'static str,
    with: Load,
    without: Load,
    most: Most,
}

/// The upper bound of a feature's cost.
#[derive(Clone, Copy)]
enum Most {
    Microseconds(f64),
    /// A multiple of the CPU that the library adds to a request of the minimal proxy.
    OfLibrary(f64),
}

const FEATURES: [Feature; 5] = [
    feature(
        "a thousand routes",
        load(Node::ManyRoutes, "/api/v500/items"),
        0.3,
    ),
    feature("a rate limit", load(Node::Features, "/limited"), 0.3),
    feature("50 rules for fields", load(Node::Features, "/fields"), 2.0),
    Feature {
        without: Load {
            carry: Carry::Token,
            ..load(Node::Features, "/plain")
        },
        ..feature("a token that is known", token("/known", Carry::Token), 1.0)
    },
    Feature {
        without: Load {
            carry: Carry::NewToken,
            ..load(Node::Features, "/plain")
        },
        most: Most::OfLibrary(1.1),
        ..feature(
            "a token that is new, RS256 of 2,048 bits",
            token("/new", Carry::NewToken),
            0.0,
        )
    },
];

/// The minimal proxy with the library, and without it.
const LIBRARY: [Load; 2] = [floor_load(Node::VerifyingFloor), floor_load(Node::Floor)];

const fn floor_load(node: Node) -> Load {
    Load {
        carry: Carry::NewToken,
        ..load(node, "/")
    }
}

const fn load(node: Node, path: &'static str) -> Load {
    Load {
        node,
        path,
        carry: Carry::Nothing,
    }
}

const fn token(path: &'static str, carry: Carry) -> Load {
    Load {
        carry,
        ..load(Node::Features, path)
    }
}

const fn feature(name: &'static str, with: Load, most_us: f64) -> Feature {
    let without = match with.node {
        Node::OneRoute | Node::ManyRoutes => load(Node::OneRoute, with.path),
        _ => load(Node::Features, "/plain"),
    };
    Feature {
        name,
        with,
        without,
        most: Most::Microseconds(most_us),
    }
}

impl Node {
    const ALL: [Self; 5] = [
        Self::OneRoute,
        Self::ManyRoutes,
        Self::Features,
        Self::Floor,
        Self::VerifyingFloor,
    ];

    const fn name(self) -> &'static str {
        match self {
            Self::OneRoute => "one-route",
            Self::ManyRoutes => "many-routes",
            Self::Features => "features",
            Self::Floor => "floor",
            Self::VerifyingFloor => "verifying-floor",
        }
    }

    const fn address(self) -> SocketAddr {
        loopback(28_074 + self as u16)
    }

    const fn admin(self) -> SocketAddr {
        loopback(28_908 + self as u16)
    }

    fn launch(self, setup: &Setup, tokens: &Tokens) -> Result<Launch> {
        match self {
            Self::OneRoute => launch(setup, self, &versions(500..501)),
            Self::ManyRoutes => launch(setup, self, &versions(0..ROUTES)),
            Self::Features => launch(setup, self, &features(tokens)),
            Self::Floor => launch_floor(setup, self, None),
            Self::VerifyingFloor => launch_floor(setup, self, Some(&tokens.public_key)),
        }
    }
}

const ROUTES: u16 = 1_000;
/// Rules for fields: half of them for requests, half for responses.
const FIELDS: u16 = 50;

/// One route for each number, so that the requested route is the same with any other routes.
fn versions(numbers: Range<u16>) -> String {
    numbers.fold(String::new(), |mut text, number| {
        let _ = write!(
            text,
            "[[http.route]]\nname = \"r{number}\"\npath = \"/api/v{number}/{{rest*}}\"\nupstream = \"origin\"\n"
        );
        text
    })
}

fn features(tokens: &Tokens) -> String {
    let fields: Vec<String> = (0..FIELDS / 2)
        .map(|number| format!("x-field-{number} = \"value {number}\""))
        .collect();
    let fields = fields.join(", ");
    let key = tokens.public_key.display();
    let keys = format!("keys = [{{ algorithm = \"RS256\", public_key_file = \"{key}\" }}]");
    let filters = format!(
        "[http.filter.limit]\nkind = \"rate-limit\"\nrate = 1000000\n\
         [http.filter.fields]\nkind = \"transform\"\nrequest_headers = {{ set = {{ {fields} }} }}\n\
         response_headers = {{ set = {{ {fields} }} }}\n\
         [http.filter.known]\nkind = \"jwt\"\n{keys}\n\
         [http.filter.new]\nkind = \"jwt\"\n{keys}\ncache_entries = 1\n"
    );
    let routes = [
        ("plain", ""),
        ("limited", "\"limit\""),
        ("fields", "\"fields\""),
        ("known", "\"known\""),
        ("new", "\"new\""),
    ];
    routes.iter().fold(filters, |mut text, (name, filter)| {
        let _ = write!(
            text,
            "[[http.route]]\nname = \"{name}\"\npath = \"/{name}\"\nfilters = [{filter}]\nupstream = \"origin\"\n"
        );
        text
    })
}

/// The loads, and their figures in the same order.
pub(super) struct Costs {
    loads: Vec<Load>,
    measured: Measured,
}

/// The figures, round by round.
#[derive(Default)]
struct Measured {
    /// CPU a request in microseconds, by load and round.
    cpu_us: Vec<Vec<f64>>,
    errors: Vec<String>,
}

/// Measures, and prints the table.
///
/// # Errors
/// When something can't be started.
pub(super) async fn run(setup: &Setup, rounds: usize) -> Result<Costs> {
    let tokens = Tokens::create(setup)?;
    let origin = origin::any_path(setup, ORIGIN)?;
    let _origin = Server::start(&origin, &setup.run_dir).await?;
    let mut servers = Vec::new();
    for node in Node::ALL {
        let launch = node.launch(setup, &tokens)?;
        servers.push((node, Server::start(&launch, &setup.run_dir).await?));
    }
    let mut loads = Vec::new();
    for load in FEATURES
        .iter()
        .flat_map(|feature| [feature.with, feature.without])
        .chain(LIBRARY)
    {
        if !loads.contains(&load) {
            loads.push(load);
        }
    }
    let mut measured = Measured {
        cpu_us: vec![Vec::new(); loads.len()],
        ..Measured::default()
    };
    let scripts = Scripts::create(setup, &tokens)?;
    for round in 0..=rounds {
        // The first round warms up.
        let is_counted = round > 0;
        for place in stats::order(loads.len(), round) {
            let load = loads[place];
            let server = servers.iter().find(|(node, _)| *node == load.node);
            let process = server.context("all nodes run")?.1.process();
            let cpu_us = scripts.run(load, process, &mut measured.errors).await?;
            if is_counted {
                measured.cpu_us[place].push(cpu_us);
            }
        }
        eprintln!("costs: round {round} of {rounds}");
    }
    let costs = Costs { loads, measured };
    costs.print();
    Ok(costs)
}

const ORIGIN: SocketAddr = loopback(28_079);
/// Rounds for each round of the bench: loads are short.
pub(super) const ROUNDS_EACH: usize = 3;
/// Seconds of each load: the shorter, the closer in time are the loads of a pair.
const SECONDS: u64 = 1;

/// The script and configuration of wrk for each token that requests carry.
struct Scripts {
    nothing: wrk::Files,
    token: wrk::Files,
    new_token: wrk::Files,
}

impl Scripts {
    fn create(setup: &Setup, tokens: &Tokens) -> Result<Self> {
        let folder = &setup.run_dir;
        let token = format!(
            "wrk.headers[\"Authorization\"] = \"Bearer {}\"\n",
            tokens.first()
        );
        let each = format!(
            "local requests, at = {{}}, 0\n\
             function init(args)\n\
             \x20 for token in io.lines(\"{}\") do\n\
             \x20   requests[#requests + 1] = wrk.format(nil, nil, {{ [\"Authorization\"] = \"Bearer \" .. token }})\n\
             \x20 end\n\
             end\n\
             function request()\n\
             \x20 at = at % #requests + 1\n\
             \x20 return requests[at]\n\
             end\n",
            tokens.list.display()
        );
        Ok(Self {
            nothing: wrk::Files::create(folder)?,
            token: wrk::Files::with(folder, "token", &token)?,
            new_token: wrk::Files::with(folder, "tokens", &each)?,
        })
    }

    /// Runs a load, and returns the CPU of a request in microseconds.
    async fn run(&self, load: Load, process: u32, errors: &mut Vec<String>) -> Result<f64> {
        let files = match load.carry {
            Carry::Nothing => &self.nothing,
            Carry::Token => &self.token,
            Carry::NewToken => &self.new_token,
        };
        let url = format!("http://{}{}", load.node.address(), load.path);
        let before = process::cpu(process)?;
        let summary = wrk::run(&url, CONNECTIONS, SECONDS, files).await?;
        let used = process::cpu(process)?.since(&before);
        if let Some(what) = summary.errors.describe() {
            errors.push(format!("{url}: {what}"));
            eprintln!("  INVALID: {url}: {what}");
        }
        Ok(used.microseconds_per(summary.requests).0)
    }
}

impl Costs {
    /// True when no load had an error.
    pub(super) fn is_valid(&self) -> bool {
        self.measured.errors.is_empty()
    }

    fn of(&self, load: &Load) -> &[f64] {
        let at = self.loads.iter().position(|other| other == load);
        at.map_or(&[][..], |at| &self.measured.cpu_us[at])
    }

    /// The difference in CPU a request, in each round.
    fn added(&self, with: &Load, without: &Load) -> Vec<f64> {
        let pairs = self.of(with).iter().zip(self.of(without));
        pairs.map(|(with, without)| with - without).collect()
    }

    /// CPU that the library adds to a request of the minimal proxy.
    fn library(&self) -> f64 {
        stats::median(&self.added(&LIBRARY[0], &LIBRARY[1]))
    }

    fn print(&self) {
        println!("\nWhat a feature adds to a request, CPU, one worker; pairs of neighbours");
        let mut table = Table::new(&[
            "feature",
            "without µs",
            "adds µs",
            "95 % of it",
            "at most",
            "",
            "rounds",
        ]);
        for feature in &FEATURES {
            let without = self.of(&feature.without);
            let added = self.added(&feature.with, &feature.without);
            let most = match feature.most {
                Most::Microseconds(most) => most,
                Most::OfLibrary(times) => times * self.library(),
            };
            let (low, high) = stats::median_interval(&added);
            let median = stats::median(&added);
            table.row(vec![
                feature.name.to_owned(),
                figure(stats::median(without), 2),
                figure(median, 2),
                format!("{}–{}", figure(low, 2), figure(high, 2)),
                figure(most, 2),
                if median <= most { "held" } else { "short" }.to_owned(),
                added.len().to_string(),
            ]);
        }
        print!("{}", table.to_markdown());
        println!(
            "\nThe library adds {} µs to a request of the least proxy for a token by RS256; at most 1.1 times that.",
            figure(self.library(), 2)
        );
        for error in &self.measured.errors {
            println!("INVALID: {error}");
        }
    }

    /// A row for each feature, and one for the library.
    pub(super) fn page_table(&self) -> Table {
        let mut table = Table::new(&["feature", "µs a request", "interval"]);
        for feature in &FEATURES {
            let added = self.added(&feature.with, &feature.without);
            let (low, high) = stats::median_interval(&added);
            table.row(vec![
                feature.name.to_owned(),
                grouped(stats::median(&added), 2),
                format!("{} to {}", grouped(low, 2), grouped(high, 2)),
            ]);
        }
        table.row(vec![
            "the same by jsonwebtoken, in the least proxy".to_owned(),
            grouped(self.library(), 2),
            String::new(),
        ]);
        table
    }
}

/// The launch of a node with these routes and filters.
fn launch(setup: &Setup, node: Node, routes: &str) -> Result<Launch> {
    let program = steppe::program(setup)?;
    let (listen, admin) = (node.address(), node.admin());
    let text = format!(
        "[node]\nworkers = 1\nmemory_budget = \"256MiB\"\n[admin]\nlisten = \"{admin}\"\n\
         [log]\nlevel = \"warn\"\naccess = \"off\"\n\
         [[http.listener]]\nlisten = \"{listen}\"\nprotocols = [\"h1\"]\n\
         [http.upstream.origin]\nservers = [\"{ORIGIN}\"]\nkeepalive = 256\n{routes}"
    );
    let name = format!("steppe-{}", node.name());
    let config = write_config(setup, &format!("{name}.toml"), &text)?;
    Ok(Launch {
        name,
        version: version(&program, &["version"])?,
        program,
        arguments: vec!["run".into(), "-c".into(), config.into()],
        environment: Vec::new(),
        address: listen,
    })
}

fn launch_floor(setup: &Setup, node: Node, public_key: Option<&Path>) -> Result<Launch> {
    let mut floor = floor::proxy(setup, node.address(), ORIGIN)?;
    if let Some(key) = public_key {
        floor.version += ", with jsonwebtoken";
        floor.arguments.extend(["--public-key".into(), key.into()]);
    }
    floor.name = node.name().to_owned();
    Ok(floor)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_halves_of_a_pair_are_sent_the_same() {
        for feature in &FEATURES {
            assert_eq!(
                feature.with.carry, feature.without.carry,
                "{}",
                feature.name
            );
            assert_ne!(feature.with, feature.without, "{}", feature.name);
        }
    }
}
