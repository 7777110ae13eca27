//! A toy filter with everything that a filter may have: a file, an upstream, an account, `explain` and mistakes.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr};
use std::path::PathBuf;
use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Instant;

use steppe_http::config::Respond;
use steppe_http::error::GatewayError;
use steppe_http::exchange::Part;
use steppe_http::explain::{Asked, ExplainError, explain};
use steppe_http::filter::{
    About, ExchangeFilter, FileError, Filter, FilterFactory, FilterFiles, FilterParts,
    FilterVerdict, Judgment, Ready, Step,
};
use steppe_http::head::RequestHead;
use steppe_http::upstream::{Call, Outcome, final_head, put};
use steppe_mem::Reservation;
use steppe_net::tls::{LoadError, read};
use steppe_testkit::Scratch;

use crate::gateway::{Running, Setup, configuration, servers};
use crate::line::LINE;
use crate::peers::{LineClient, Server};

/// Asks its upstream about requests whose path has a word of its file.
#[derive(Debug)]
struct Doorman {
    file: PathBuf,
}

/// Words, by line.
type Words = Vec<String>;

#[derive(Debug)]
struct AtTheDoor {
    words: Arc<Words>,
    _charge: Option<Reservation>,
}

/// A request about which the upstream is asked.
struct Asking(Pin<Box<dyn Future<Output = Result<u16, GatewayError>>>>);

const CHARGED_BYTES: usize = 4096;

impl FilterFactory for Doorman {
    fn upstream(&self) -> Option<usize> {
        Some(0)
    }

    fn load(&self, name: &str) -> Result<FilterFiles, FileError> {
        assert_eq!(name, "filter 0");
        let words = read(&self.file).and_then(|bytes| {
            let text = String::from_utf8_lossy(&bytes).into_owned();
            let words: Words = text.lines().map(str::to_owned).collect();
            match words.is_empty() {
                true => Err(LoadError::content(&self.file, "no words in the file")),
                false => Ok(words),
            }
        });
        let key = "http.filter.words";
        let words = words.map_err(FileError::at(key))?;
        Ok(FilterFiles::new(words))
    }

    fn build(&self, parts: &FilterParts<'_>) -> Arc<dyn Filter> {
        let account = parts.account.child(format!("door {}", parts.name), None);
        Arc::new(AtTheDoor {
            words: parts.files.get().unwrap_or_default(),
            _charge: account.lease().try_reserve(CHARGED_BYTES).ok(),
        })
    }

    fn explain(
        &self,
        filter: &dyn Filter,
        about: &About<'_>,
        head: &mut RequestHead,
    ) -> Result<Judgment, GatewayError> {
        Ok(match about.pool {
            None if head.path().starts_with(b"/at/asked") => {
                Judgment::depends("depends on the doorman's server")
            }
            _ => steppe_http::filter::by_beginning(filter, about, head)?,
        })
    }
}

impl Filter for AtTheDoor {
    fn begin(&self, about: &About<'_>, head: &mut RequestHead) -> Result<Step, GatewayError> {
        let path = String::from_utf8_lossy(head.path()).into_owned();
        if !self.words.iter().any(|word| path.contains(word)) {
            return Ok(Step::Continue);
        }
        let pool = Rc::clone(about.pool.expect("it has an upstream"));
        let mut selection = pool.select(head, about.client);
        let asked = RequestHead::new(b"GET", b"door", b"/may-it", about.lease)?;
        let (lease, now) = (about.lease.clone(), about.now);
        Ok(Step::Attach(Box::new(Asking(Box::pin(async move {
            let mut call = match Call::checkout(&pool, &mut selection, now)? {
                Some(call) => call,
                None => Call::connect(pool, &mut selection, None).await?,
            };
            call.start(&asked, &lease, now)?;
            put(call.upstream(), Part::End(None)).await?;
            let status = final_head(call.upstream()).await?.status;
            call.note_status(status, &mut selection, now);
            call.finish(Outcome::Complete, now).put_back(now);
            Ok(status)
        })))))
    }
}

impl ExchangeFilter for Asking {
    fn poll_ready(
        &mut self,
        cx: &mut Context<'_>,
        _: &mut RequestHead,
    ) -> Poll<Result<Ready, GatewayError>> {
        Poll::Ready(Ok(match ready!(self.0.as_mut().poll(cx))? {
            200..300 => Ready::Continue,
            status => Ready::Respond(Respond {
                status,
                body: Vec::new(),
                fields: Vec::new(),
            }),
        }))
    }
}

impl fmt::Debug for Asking {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Asking")
    }
}

/// Answers questions of the doorman by 403, and all else by 200.
fn decide(_: &Server, line: &str) -> Option<String> {
    Some(match line.contains("/may-it") {
        true => "403 \n".to_owned(),
        false => "200 \n".to_owned(),
    })
}

fn setup(folder: &Scratch, server: &Server) -> Setup {
    Setup {
        codecs: crate::codecs(),
        protocols: vec![LINE],
        servers: servers(LINE, [server.address]),
        filters: vec![Arc::new(Doorman {
            file: folder.join("words"),
        })],
    }
}

#[test]
fn a_filter_of_a_program_has_a_file_an_upstream_and_an_account() {
    let folder = Scratch::new("doorman");
    folder.write("words", "secret\n");
    let server = Server::lines(decide);
    let mut gateway = Running::start(setup(&folder, &server));
    let accounts = |gateway: &Running| format!("{:?}", gateway.budget.report());
    assert!(
        accounts(&gateway).contains("door filter 0"),
        "{}",
        accounts(&gateway)
    );
    let mut client = LineClient::connect(gateway.addresses[0]);
    assert!(client.ask("GET a /at/open\n").starts_with("200 "));
    assert!(client.ask("GET a /at/secret\n").starts_with("403 "));
    let asked = server.requests();
    assert!(asked[1].starts_with("GET door /may-it "), "{asked:?}");
    // A file that can't be used changes nothing.
    folder.write("words", "");
    let error = gateway.reload().expect_err("no words");
    assert_eq!(error.key, "http.filter.words");
    assert!(
        error.to_string().ends_with("words: no words in the file"),
        "{error}"
    );
    assert!(client.ask("GET a /at/secret\n").starts_with("403 "));
    folder.write("words", "open\n");
    gateway.reload().expect("a word");
    assert!(client.ask("GET a /at/secret\n").starts_with("200 "));
    assert!(client.ask("GET a /at/open\n").starts_with("403 "));
}

#[test]
fn a_filter_of_a_program_is_explained() {
    let folder = Scratch::new("doorman-explained");
    let server = Server::lines(decide);
    let asked = |target| Asked {
        method: "GET",
        authority: "a",
        target,
        fields: &[],
        client: IpAddr::V4(Ipv4Addr::LOCALHOST),
        listener: 0,
        claims: None,
        now: Instant::now(),
    };
    let any = steppe_net::ListenAddress::Tcp((Ipv4Addr::LOCALHOST, 0).into());
    let bound = steppe_net::bind(&any, 1).expect("binds");
    let config = configuration(setup(&folder, &server), &bound);
    let error = explain(&config, &asked("/at/x")).expect_err("there is no file");
    assert!(matches!(error, ExplainError::File(error) if error.key == "http.filter.words"));
    folder.write("words", "secret\n");
    let verdict = |target| {
        let explained = explain(&config, &asked(target)).expect("it is valid");
        let judgment = &explained.steps[0].judgment;
        (judgment.verdict, judgment.reason.clone())
    };
    let depends = "depends on the doorman's server".to_owned();
    assert_eq!(verdict("/at/asked"), (FilterVerdict::Depends, depends));
    assert_eq!(verdict("/at/x"), (FilterVerdict::Passes, String::new()));
}
