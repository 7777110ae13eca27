//! `steppe dns explain`: the rule that decides about a name, its reason and its place in the file.
//!
//! The command reads the configuration and the files that it names, as a node that starts with them does, and contacts
//! no node.

mod setting;

use std::fmt::Write as _;
use std::net::IpAddr;
use std::process::ExitCode;

use clap::Args;
use serde_json::{Value, json};
use steppe_config::sources::{Place, Sources};
use steppe_dns::client::{Client, ClientId};
use steppe_dns::config::{Action, Block};
use steppe_dns::explain::{By, Decision, HostLine, ListLine, Why, explain};
use steppe_dns::rules::Verdict;
use steppe_dns::special_use::SpecialUse;
use steppe_dns::wire::{Name, NameError, Rtype};

use crate::cli::code::Code;
use crate::cli::console::{complain, load, print, say};
use crate::cli::source::Source;
use crate::config::{self, Config};

#[derive(Debug, Args)]
pub(super) struct Options {
    /// The query name
    #[arg(value_name = "NAME", value_parser = name)]
    name: Box<Name>,
    /// The query type
    #[arg(value_name = "TYPE", value_parser = config::dns_type, default_value = "A")]
    qtype: Rtype,
    /// The client's address
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1")]
    client: IpAddr,
    /// The client ID, as in the TLS server name or the path over HTTPS
    #[arg(long, value_name = "ID")]
    client_id: Option<ClientId>,
    #[command(flatten)]
    source: Source,
}

pub(super) const HELP: &str = "\
Examples:
  steppe dns explain ads.example.org
  steppe dns explain example.org AAAA --client 192.168.7.9 -c steppe.toml
  steppe dns explain example.org --client-id kids-tablet --json

Exit codes: 0 if there is a decision, a refusal included; 1 if the configuration, or a file that it
names, can't be read.";

/// Parses a name, on the heap: it takes a quarter of a KiB.
fn name(text: &str) -> Result<Box<Name>, NameError> {
    text.parse().map(Box::new)
}

pub(super) fn run(options: &Options) -> ExitCode {
    let outcome = match load(&options.source.config) {
        Ok(outcome) => outcome,
        Err(code) => return code.into(),
    };
    complain(&outcome.report);
    let Some(config) = outcome.config else {
        return Code::Configuration.into();
    };
    let client = Client {
        id: options.client_id,
        ..Client::at(options.client)
    };
    let explained = match explain(&config.dns, &client, (&options.name, options.qtype)) {
        Ok(explained) => explained,
        Err(error) => {
            say(&format!("steppe: {error}\n"));
            return Code::Configuration.into();
        }
    };
    let shown = Shown {
        config: &config,
        files: &outcome.files,
    };
    let decisions = &explained.decisions;
    if options.source.json {
        let decisions: Vec<Value> = decisions.iter().map(|each| shown.json(each)).collect();
        let explained = json!({
            "name": options.name.to_string(),
            "type": options.qtype.to_string(),
            "client": client.address,
            "client_id": client.id.map(|id| id.to_string()),
            "decisions": decisions,
        });
        return print(&format!("{explained:#}\n"));
    }
    let qtype = options.qtype.to_string();
    let mut text = format!("{} {qtype} from {}", options.name, client.address);
    if let Some(id) = client.id {
        let _ = write!(text, " ({id})");
    }
    text.push('\n');
    for (number, decision) in decisions.iter().enumerate() {
        if number > 0 {
            let _ = writeln!(text, "{} {qtype}", decision.name);
        }
        text.push_str(&shown.text(decision));
    }
    print(&text)
}

/// The configuration and its files, to show decisions by.
struct Shown<'a> {
    config: &'a Config,
    files: &'a Sources<'static>,
}

impl Shown<'_> {
    /// The place of a rule.
    fn rule_place(&self, number: usize) -> Option<Place> {
        Some(self.files.place(self.config.dns_rule_at(number)?))
    }

    /// A rule's number, from 1, and its place.
    fn rule_text(&self, number: usize) -> String {
        let place = self.rule_place(number);
        let place = place.map_or(String::new(), |place| format!(" ({place})"));
        format!("rule {}{place}", number + 1)
    }

    /// The line of a rule, from 1.
    fn rule_line(&self, number: usize) -> Option<usize> {
        Some(self.rule_place(number)?.line)
    }

    /// The path of a rule's file.
    fn rule_file(&self, number: usize) -> Option<String> {
        Some(self.rule_place(number)?.file)
    }

    /// The action of a rule, as a setting.
    fn action(&self, action: &Action) -> String {
        match action {
            Action::Forward(upstream) => {
                let upstream = self.config.dns.upstreams.get(*upstream);
                let name = upstream.map_or("", |upstream| upstream.name.as_str());
                format!("forward = \"{name}\"")
            }
            Action::Block(block) => format!("block = \"{}\"", block_name(*block)),
            Action::Rewrite(target) => format!("rewrite to {target}"),
            Action::Records(_) => "records".to_owned(),
        }
    }

    fn text(&self, decision: &Decision<'_>) -> String {
        let mut text = match &decision.by {
            By::Access => {
                "  refused: the client's address is not in `dns.access.allow`\n".to_owned()
            }
            By::Nothing => "  refused: no rule matches\n".to_owned(),
            By::SpecialUse(special) => format!("  answered locally: {}\n", special_text(*special)),
            By::Hosts(lines) => {
                let lines = lines
                    .iter()
                    .map(|line| format!("    {}\n", host_text(line)));
                format!(
                    "  answered locally, from hosts:\n{}",
                    lines.collect::<String>()
                )
            }
            By::Rule {
                number,
                action,
                why,
            } => format!(
                "  {} decides: {}\n  because {}\n",
                self.rule_text(*number),
                self.action(action),
                why_text(why)
            ),
        };
        for setting in setting::of(self.config, decision.settings) {
            let rule = self.rule_text(setting.rule);
            let _ = writeln!(text, "  {rule} sets: {} = {}", setting.key, setting.says);
        }
        if !decision.lines.is_empty() {
            text.push_str("  list lines that match the name:\n");
            for line in &decision.lines {
                let _ = writeln!(text, "    {}", line_text(line));
            }
        }
        text
    }

    fn json(&self, decision: &Decision<'_>) -> Value {
        let by = match &decision.by {
            By::Access => json!({ "by": "access" }),
            By::Nothing => json!({ "by": "nothing" }),
            By::SpecialUse(special) => {
                json!({ "by": "special-use", "answer": special_text(*special) })
            }
            By::Hosts(lines) => {
                let line = |line: &HostLine| {
                    json!({
                        "type": line.record.rtype().to_string(),
                        "file": line.place.as_ref().map(|(file, _)| file),
                        "line": line.place.as_ref().map(|(_, line)| line),
                    })
                };
                json!({ "by": "hosts", "records": lines.iter().map(line).collect::<Vec<_>>() })
            }
            By::Rule {
                number,
                action,
                why,
            } => json!({
                "by": "rule",
                "rule": number + 1,
                "file": self.rule_file(*number),
                "line": self.rule_line(*number),
                "action": self.action(action),
                "matches": match why {
                    Why::Any => json!("any"),
                    Why::Name => json!("name"),
                    Why::Pattern => json!("name_regex"),
                    Why::Lists(lists) => json!({ "lists": lists }),
                },
            }),
        };
        let line = |line: &ListLine| {
            json!({
                "list": line.list,
                "file": line.file,
                "line": line.line,
                "text": line.text,
                "exception": line.verdict.is_exception(),
            })
        };
        let lines: Vec<Value> = decision.lines.iter().map(line).collect();
        let settings = setting::of(self.config, decision.settings);
        let settings = settings.map(|setting| {
            let said = json!({
                "rule": setting.rule + 1,
                "file": self.rule_file(setting.rule),
                "line": self.rule_line(setting.rule),
                "says": setting.says,
            });
            (setting.key.to_owned(), said)
        });
        json!({
            "name": decision.name.to_string(),
            "decision": by,
            "settings": settings.collect::<serde_json::Map<_, _>>(),
            "list_lines": lines,
        })
    }
}

fn block_name(block: Block) -> &'static str {
    match block {
        Block::NameError => "nxdomain",
        Block::NoData => "nodata",
        Block::Zero => "zero",
        Block::Refused => "refused",
    }
}

fn special_text(special: SpecialUse) -> &'static str {
    match special {
        SpecialUse::Loopback => "special-use name: the loopback address",
        SpecialUse::NameError => "special-use name: NXDOMAIN",
        SpecialUse::NoData => "special-use name: NODATA",
        SpecialUse::LocalhostPtr => "reverse name of the loopback address: localhost",
        SpecialUse::Designations => "designations of this resolver: its encrypted endpoints",
    }
}

fn why_text(why: &Why) -> String {
    match why {
        Why::Any => "the rule has no condition on names".to_owned(),
        Why::Name => "the rule names the name or a parent of it".to_owned(),
        Why::Pattern => "a `name_regex` of the rule matches the name".to_owned(),
        Why::Lists(lists) => match lists.as_slice() {
            [list] => format!("the name is on list `{list}`"),
            lists => format!("the name is on lists `{}`", lists.join("`, `")),
        },
    }
}

fn line_text(line: &ListLine) -> String {
    let exception = match line.verdict {
        Verdict::Block | Verdict::BlockImportant => "",
        Verdict::NoData => " (NODATA)",
        Verdict::Allow | Verdict::AllowImportant => " (an exception)",
    };
    format!(
        "{}:{}: {}{exception}",
        line.file.display(),
        line.line,
        line.text
    )
}

fn host_text(line: &HostLine) -> String {
    let record = &line.record;
    let rtype = record.rtype().to_string();
    let what = match record.as_address() {
        Some(address) => format!("{rtype} {address}"),
        None => rtype,
    };
    match &line.place {
        Some((file, number)) => format!("{what} ({}:{number})", file.display()),
        None => format!("{what} (dns.hosts.records)"),
    }
}
