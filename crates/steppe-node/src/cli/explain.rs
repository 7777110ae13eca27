//! `steppe explain`: the listener and route that take a request, and the filters and rules that decide about it.
//!
//! The command reads the configuration and the files that it names, as a node that starts with them does, and sends
//! nothing.

use std::fmt::Write as _;
use std::net::IpAddr;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Instant;

use clap::Args;
use hyper::Uri;
use serde_json::{Map, Value, json};
use steppe_config::sources::Sources;
use steppe_http::explain::{
    Asked, Explained, Explanation, Scheme, Unrouted, explain, listener_for, target_name,
};
use steppe_http::filter::FilterVerdict;

use steppe_http::router::Unmet;

use crate::cli::code::Code;
use crate::cli::console::{complain, load, print, say};
use crate::cli::source::Source;
use crate::config::Config;

#[derive(Debug, Args)]
pub(super) struct Options {
    /// The method
    #[arg(value_name = "METHOD")]
    method: String,
    /// The URL of the request, http or https
    #[arg(value_name = "URL")]
    url: Uri,
    /// A field of the request, "NAME: VALUE"; may be repeated
    #[arg(short = 'H', long = "header", value_name = "FIELD", value_parser = field)]
    fields: Vec<(String, String)>,
    /// The client's address
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1")]
    client: IpAddr,
    /// File with a bearer token, verified as the node verifies it
    #[arg(long, value_name = "FILE", conflicts_with = "claims")]
    token: Option<PathBuf>,
    /// Claims of a verified token as JSON, instead of a token
    #[arg(long, value_name = "JSON", value_parser = claims)]
    claims: Option<Map<String, Value>>,
    #[command(flatten)]
    source: Source,
}

pub(super) const HELP: &str = "\
Examples:
  steppe explain GET http://www.example.com/ -c steppe.toml
  steppe explain GET https://api.example.com/v1/users/7 -H 'x-version: 2' --token token.jwt
  steppe explain PUT https://api.example.com/v1/users/7 --claims '{\"scope\": \"read write\"}' --json

Exit codes: 0 if there is a decision, a refusal included; 1 if the configuration, or a file that it
names, can't be read; 2 if the request is malformed, or no listener matches.";

/// Parses a field: a name without spaces, and a value without control characters.
fn field(text: &str) -> Result<(String, String), String> {
    let (name, value) = text.split_once(':').ok_or("expected NAME: VALUE")?;
    let (name, value) = (name.trim(), value.trim());
    let is_name = steppe_http::field::is_token(name.as_bytes());
    if !is_name || !steppe_http::field::is_field_value(value.as_bytes()) {
        return Err("invalid field name or value".to_owned());
    }
    Ok((name.to_ascii_lowercase(), value.to_owned()))
}

fn claims(text: &str) -> Result<Map<String, Value>, String> {
    serde_json::from_str(text).map_err(|error| format!("expected a JSON object: {error}"))
}

#[expect(
    clippy::disallowed_methods,
    reason = "the request that is explained comes now"
)]
pub(super) fn run(options: &Options) -> ExitCode {
    let outcome = match load(&options.source.config) {
        Ok(outcome) => outcome,
        Err(code) => return code.into(),
    };
    complain(&outcome.report);
    let Some(config) = outcome.config else {
        return Code::Configuration.into();
    };
    let mut fields = options.fields.clone();
    if let Some(file) = &options.token {
        match std::fs::read_to_string(file) {
            Ok(token) => {
                let bearer = format!("Bearer {}", token.trim());
                fields.push(("authorization".to_owned(), bearer));
            }
            Err(error) => {
                say(&format!("steppe: {}: {error}\n", file.display()));
                return Code::Configuration.into();
            }
        }
    }
    let Some(listener) = listener(options, &config) else {
        say(&unmatched(options, &config));
        return Code::Usage.into();
    };
    let target = options.url.path_and_query();
    let authority = options.url.authority();
    let explained = explain(
        &config.http,
        &Asked {
            method: &options.method,
            authority: authority.map_or("", |authority| authority.as_str()),
            target: target.map_or("/", |target| target.as_str()),
            fields: &fields,
            client: options.client,
            listener,
            claims: options.claims.clone(),
            now: Instant::now(),
        },
    );
    let explained = match explained {
        Ok(explained) => explained,
        Err(error @ steppe_http::explain::ExplainError::File(_)) => {
            say(&format!("{}: {error}\n", options.source.config.display()));
            return Code::Configuration.into();
        }
        Err(error) => {
            say(&format!("steppe: {error}\n"));
            return Code::Usage.into();
        }
    };
    let shown = Shown {
        config: &config,
        options,
        listener,
        files: &outcome.files,
    };
    let text = match options.source.json {
        true => format!("{:#}\n", shown.json(&explained)),
        false => shown.text(&explained),
    };
    print(&outcome.files.placed.redactor_of_files().redacted(&text))
}

fn listener(options: &Options, config: &Config) -> Option<usize> {
    let scheme = match options.url.scheme_str()? {
        "https" => Scheme::Https,
        "http" => Scheme::Http,
        _ => return None,
    };
    listener_for(&config.http, scheme, options.url.port_u16())
}

/// The error for a URL that no listener serves, with the listeners that there are.
fn unmatched(options: &Options, config: &Config) -> String {
    let listeners = config.http.listeners.iter().map(|listener| {
        let scheme = if listener.tls.is_some() {
            "https"
        } else {
            "http"
        };
        format!("{scheme} on {}", listener.address)
    });
    let listeners: Vec<_> = listeners.collect();
    let listeners = match listeners.join(", ") {
        none if none.is_empty() => "it has no listener of the gateway".to_owned(),
        all => format!("its listeners are {all}"),
    };
    let (url, file) = (&options.url, options.source.config.display());
    format!("steppe: no listener of {file} matches {url}\n  help: {listeners}\n")
}

/// The configuration, its files and the request, to show an explanation by.
struct Shown<'a> {
    config: &'a Config,
    options: &'a Options,
    listener: usize,
    files: &'a Sources<'static>,
}

impl Shown<'_> {
    /// A line of a file, from 1.
    fn line(&self, at: Option<usize>) -> Option<usize> {
        Some(self.files.place(at?).line)
    }

    /// The path of a file.
    fn file(&self, at: Option<usize>) -> Option<&str> {
        Some(&self.files.file(at?).name)
    }

    fn place(&self, at: Option<usize>) -> String {
        at.map_or(String::new(), |at| format!(" ({})", self.files.place(at)))
    }

    fn filter(&self, step: &Explanation) -> (&str, &'static str) {
        let filter = &self.config.http.filters[step.filter];
        (
            &filter.name,
            self.config.filter_kind(&filter.name).unwrap_or_default(),
        )
    }

    fn rule_at(&self, step: &Explanation) -> Option<usize> {
        let (name, _) = self.filter(step);
        self.config.rule_at(name, step.judgment.rule?)
    }

    fn text(&self, explained: &Explained) -> String {
        let options = self.options;
        let mut text = format!(
            "{} {} from {}\n",
            options.method, options.url, options.client
        );
        let address = &self.config.http.listeners[self.listener].address;
        let _ = writeln!(text, "  listener {address}");
        for passed_over in self.written(explained) {
            let _ = writeln!(text, "  {}", self.passed_over(passed_over));
        }
        let route = match &explained.route {
            Ok(route) => *route,
            Err(unrouted) => {
                let _ = writeln!(
                    text,
                    "  answered by the listener: {}",
                    unrouted_text(unrouted)
                );
                return text;
            }
        };
        let name = &self.config.http.routes[route].name;
        let place = self.place(self.config.route_at(route));
        let _ = writeln!(text, "  route {name}{place}");
        for step in &explained.steps {
            let (name, kind) = self.filter(step);
            let verdict = match step.judgment.verdict {
                FilterVerdict::Passes => "passes".to_owned(),
                FilterVerdict::Depends => "may respond".to_owned(),
                FilterVerdict::Answers(status) => format!("responds with {status}"),
            };
            let rule = step.judgment.rule.map(|rule| {
                let place = self.place(self.rule_at(step));
                format!(", rule {}{place} decides", rule + 1)
            });
            let rule = rule.unwrap_or_default();
            let why = match step.judgment.reason.as_str() {
                "" => String::new(),
                why => format!(": {why}"),
            };
            let _ = writeln!(text, "  {name} ({kind}) {verdict}{rule}{why}");
        }
        if let Some(target) = &explained.target {
            let answers = target_name(&self.config.http, route);
            let _ = writeln!(text, "  served by {answers}: {target}");
        }
        text
    }

    /// Routes that were passed over, except those of DNS over HTTPS, which no file has.
    fn written(&self, explained: &Explained) -> impl Iterator<Item = (usize, Unmet)> {
        let passed_over = explained.passed_over.iter().copied();
        passed_over.filter(|(route, _)| self.config.route_at(*route).is_some())
    }

    /// The reason why a route with the request's host and path does not match. The value of the condition is secret.
    fn passed_over(&self, (route, unmet): (usize, Unmet)) -> String {
        let name = &self.config.http.routes[route].name;
        let place = self.place(self.config.route_at(route));
        let (key, at) = self.config.condition_at(route, unmet).unzip();
        let condition = key.unwrap_or_default();
        let at = self.place(at);
        format!("route {name}{place} does not match: {condition}{at}")
    }

    fn passed_over_json(&self, (route, unmet): (usize, Unmet)) -> Value {
        let (condition, at) = self.config.condition_at(route, unmet).unzip();
        json!({
            "name": self.config.http.routes[route].name,
            "file": self.file(self.config.route_at(route)),
            "line": self.line(self.config.route_at(route)),
            "condition": condition,
            "condition_line": self.line(at),
        })
    }

    fn json(&self, explained: &Explained) -> Value {
        let steps = explained.steps.iter().map(|step| {
            let (name, kind) = self.filter(step);
            let (verdict, status) = match step.judgment.verdict {
                FilterVerdict::Passes => ("passes", None),
                FilterVerdict::Depends => ("depends", None),
                FilterVerdict::Answers(status) => ("answers", Some(status)),
            };
            json!({
                "filter": name,
                "kind": kind,
                "verdict": verdict,
                "status": status,
                "why": step.judgment.reason,
                "rule": step.judgment.rule.map(|rule| rule + 1),
                "file": self.file(self.rule_at(step)),
                "line": self.line(self.rule_at(step)),
            })
        });
        let route = explained.route.as_ref().ok().map(|route| {
            json!({
                "name": self.config.http.routes[*route].name,
                "file": self.file(self.config.route_at(*route)),
                "line": self.line(self.config.route_at(*route)),
                "answers": target_name(&self.config.http, *route),
            })
        });
        json!({
            "method": self.options.method,
            "url": self.options.url.to_string(),
            "client": self.options.client,
            "listener": self.config.http.listeners[self.listener].address.to_string(),
            "route": route,
            "passed_over": self.written(explained).map(|each| self.passed_over_json(each)).collect::<Vec<_>>(),
            "unrouted": explained.route.as_ref().err().map(unrouted_text),
            "filters": steps.collect::<Vec<_>>(),
            "target": explained.target,
        })
    }
}

fn unrouted_text(unrouted: &Unrouted) -> String {
    match unrouted {
        Unrouted::ToHttps => "308, the listener redirects to https".to_owned(),
        Unrouted::NotFound => "404, no route matches".to_owned(),
        Unrouted::Methods(methods) => {
            format!("405, routes match only with {}", methods.join(", "))
        }
    }
}
