//! `steppe health`: asks a running node whether it is ready, for containers and scripts.
//!
//! Invariant: it ends within [`TIMEOUT`] and reads a bounded response, whatever the peer sends.
//! Non-goals: endpoints other than `/readyz`, which needs no token. Spec: RFC 9112.

use std::fmt;
use std::io::{self, Read, Write};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpStream};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use clap::Args;
use steppe_net::ListenAddress;

use super::code::Code;
use super::console::{complain, load, print, say};

/// The whole exchange may take this long: less than probes of containers wait.
const TIMEOUT: Duration = Duration::from_secs(3);

/// `/readyz` answers with a head of a few lines and a word.
const ANSWER_BYTES_MAX: u64 = 8 << 10;

#[derive(Debug, Args)]
pub(super) struct Health {
    /// Where admin, or its probes, listen: an IP address and port, or unix:PATH
    #[arg(long, value_name = "ADDRESS", value_parser = address, default_value = "127.0.0.1:9900")]
    admin: ListenAddress,
    /// Configuration of the node, which tells where instead
    #[arg(short, long = "config", value_name = "FILE", conflicts_with = "admin")]
    config: Option<PathBuf>,
}

pub(super) const HELP: &str = "\
Examples:
  steppe health
  steppe health --admin unix:/run/steppe/admin.sock
  steppe health -c /etc/steppe/steppe.toml

Exit codes: 0 where the node is ready; 1 where it starts, drains or doesn't answer.";

pub(super) fn run(options: Health) -> ExitCode {
    let address = match probed(options) {
        Ok(address) => address,
        Err(code) => return code.into(),
    };
    match ask(&address) {
        Ok(answer) if answer.status == 200 => print(&format!("{}\n", answer.word)),
        Ok(answer) => {
            say(&format!("steppe: {address}: {answer}\n"));
            ExitCode::FAILURE
        }
        Err(error) => {
            say(&format!("steppe: {address}: {error}\n"));
            ExitCode::FAILURE
        }
    }
}

fn address(text: &str) -> Result<ListenAddress, String> {
    match text.strip_prefix("unix:") {
        Some(path) => Ok(ListenAddress::Unix(PathBuf::from(path))),
        None => text
            .parse()
            .map(ListenAddress::Tcp)
            .map_err(|_| "write an IP address and a port, or unix:PATH".to_owned()),
    }
}

/// Where to ask.
fn probed(options: Health) -> Result<ListenAddress, Code> {
    let Some(file) = options.config else {
        return Ok(options.admin);
    };
    let outcome = load(&file)?;
    let Some(config) = outcome.config else {
        complain(&outcome.report);
        return Err(Code::Configuration);
    };
    let Some(admin) = config.admin else {
        say(&format!(
            "steppe: {} has no [admin] to ask\n",
            file.display()
        ));
        return Err(Code::Configuration);
    };
    Ok(reachable(admin.probes.unwrap_or(admin.listen)))
}

/// Nothing can be reached at the unspecified address that a node may listen on.
fn reachable(address: ListenAddress) -> ListenAddress {
    match address {
        ListenAddress::Tcp(tcp) if tcp.ip().is_unspecified() => {
            let loopback = match tcp.ip() {
                IpAddr::V4(_) => IpAddr::V4(Ipv4Addr::LOCALHOST),
                IpAddr::V6(_) => IpAddr::V6(Ipv6Addr::LOCALHOST),
            };
            ListenAddress::Tcp(SocketAddr::new(loopback, tcp.port()))
        }
        other => other,
    }
}

#[derive(Debug, PartialEq, Eq)]
struct Answer {
    status: u16,
    /// The first line of the content.
    word: String,
}

impl fmt::Display for Answer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.status, self.word)
    }
}

fn ask(address: &ListenAddress) -> io::Result<Answer> {
    let end = Instant::now() + TIMEOUT;
    let answer = match address {
        ListenAddress::Tcp(tcp) => {
            let stream = TcpStream::connect_timeout(tcp, TIMEOUT)?;
            stream.set_write_timeout(Some(TIMEOUT))?;
            let wait = |limit| stream.set_read_timeout(Some(limit));
            exchange(&stream, &stream, &tcp.to_string(), wait, end)?
        }
        ListenAddress::Unix(path) => {
            let stream = UnixStream::connect(path)?;
            stream.set_write_timeout(Some(TIMEOUT))?;
            let wait = |limit| stream.set_read_timeout(Some(limit));
            exchange(&stream, &stream, "localhost", wait, end)?
        }
    };
    parse(&answer).ok_or_else(|| io::Error::other("no answer of HTTP/1.1"))
}

fn exchange(
    mut writer: impl Write,
    reader: impl Read,
    host: &str,
    wait: impl Fn(Duration) -> io::Result<()>,
    end: Instant,
) -> io::Result<Vec<u8>> {
    let request = format!("GET /readyz HTTP/1.1\r\nhost: {host}\r\nconnection: close\r\n\r\n");
    writer.write_all(request.as_bytes())?;
    let mut reader = reader.take(ANSWER_BYTES_MAX);
    let (mut answer, mut part) = (Vec::new(), [0; 1024]);
    loop {
        let left = end.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(io::ErrorKind::TimedOut.into());
        }
        wait(left)?;
        match reader.read(&mut part)? {
            0 => return Ok(answer),
            length => answer.extend_from_slice(&part[..length]),
        }
    }
}

fn parse(answer: &[u8]) -> Option<Answer> {
    let answer = std::str::from_utf8(answer).ok()?;
    let (head, content) = answer.split_once("\r\n\r\n")?;
    let status = head.strip_prefix("HTTP/1.1 ")?.get(..3)?.parse().ok()?;
    let word = content.lines().next().unwrap_or_default();
    Some(Answer {
        status,
        word: word.escape_default().to_string(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_as_in_a_configuration() {
        let tcp = ListenAddress::Tcp(SocketAddr::from((Ipv4Addr::LOCALHOST, 9900)));
        assert_eq!(address("127.0.0.1:9900"), Ok(tcp));
        let unix = ListenAddress::Unix(PathBuf::from("/run/a"));
        assert_eq!(address("unix:/run/a"), Ok(unix));
        address("localhost").expect_err("no port");
    }

    #[test]
    fn the_unspecified_address_is_asked_on_loopback() {
        for (listens, asked) in [
            ("0.0.0.0:1", "127.0.0.1:1"),
            ("[::]:1", "[::1]:1"),
            ("10.1.2.3:1", "10.1.2.3:1"),
        ] {
            let address = reachable(address(listens).expect("an address"));
            assert_eq!(address.to_string(), asked);
        }
    }

    #[test]
    fn status_and_word_are_read_and_garbage_is_not() {
        let answer = parse(b"HTTP/1.1 503 Service Unavailable\r\na: b\r\n\r\ndraining\n");
        assert_eq!(answer.expect("whole").to_string(), "503 draining");
        assert_eq!(parse(b"HTTP/1.1 200 OK\r\n"), None);
        assert_eq!(parse(b"SSH-2.0\r\n\r\n"), None);
        assert_eq!(parse(&[0xff; 40]), None);
    }
}
