//! nghttpd as the server: files of all sizes, content that it sends back, trailers, padding, few streams.

use std::net::{SocketAddr, TcpStream};
use std::process::Command;

use steppe_testkit::{
    Curl, CurlOutput, H2load, NodeConfig, Pattern, Port, Process, Scratch, Steppe, eventually, skip,
};

/// The path of nghttpd on Debian, whose folder may be missing in `PATH`.
const PROGRAM: &str = "/usr/sbin/nghttpd";

/// Sizes of files, in bytes: near those of frames and windows (RFC 9113 §4.2, §6.9.2), and one above all buffers.
const SIZES: [usize; 10] = [
    0, 1, 4_095, 4_096, 16_383, 16_384, 16_385, 65_535, 65_536, 1_000_000,
];

/// Options of nghttpd that change its frames and windows.
const MANNERS: [&[&str]; 5] = [
    &[],
    &["--padding=200"],
    &["--max-concurrent-streams=2"],
    &["--no-content-length", "--early-response"],
    &["--window-bits=10", "--push=/1=/4095"],
];

struct Nghttpd {
    _process: Process,
    address: SocketAddr,
    _folder: Scratch,
}

impl Nghttpd {
    /// Starts nghttpd with these arguments; `None`, and a skipped `test`, if it is not installed.
    fn start(test: &str, arguments: &[&str]) -> Option<Self> {
        if Command::new(PROGRAM).arg("--version").output().is_err() {
            skip(test, "nghttpd is not installed");
            return None;
        }
        let folder = Scratch::new("nghttpd");
        for bytes in SIZES {
            folder.write(&bytes.to_string(), content(bytes));
        }
        let address = Port::free().keep();
        let mut command = Command::new(PROGRAM);
        command.args(["--no-tls", "--echo-upload", "--trailer=x-sum: 7"]);
        command.args(arguments);
        command.arg(format!("--address={}", address.ip()));
        command.arg(format!("--htdocs={}", folder.path().display()));
        command.arg(address.port().to_string());
        let mut process = Process::start("nghttpd", command);
        eventually("nghttpd listens", || {
            assert!(process.is_running(), "{}", process.said());
            TcpStream::connect(address).is_ok()
        });
        Some(Self {
            _process: process,
            address,
            _folder: folder,
        })
    }

    fn behind_a_node(&self) -> Steppe {
        let config = NodeConfig::plain().protocols(["h1", "h2c"]);
        let config = config.upstream("origin", |upstream| upstream.set("protocol", "h2c"));
        Steppe::builder().with("origin", self.address).start(config)
    }
}

/// The first bytes of a pattern that repeats at no offset of a buffer.
fn content(bytes: usize) -> Vec<u8> {
    let mut content = vec![0; bytes];
    Pattern::new(0).fill(0, &mut content);
    content
}

fn assert_whole(got: &CurlOutput, bytes: usize, said: &str) {
    assert_eq!((got.exit, got.head.status()), (0, 200), "{said}: {got:?}");
    assert!(
        got.body == content(bytes),
        "{said}: {} bytes",
        got.body.len()
    );
}

#[test]
fn files_of_nghttpd_come_whole() {
    for manner in MANNERS {
        let Some(server) = Nghttpd::start("files_of_nghttpd_come_whole", manner) else {
            return;
        };
        let node = server.behind_a_node();
        for bytes in SIZES {
            let got = Curl::new(&node.url(&format!("/{bytes}")))
                .args(["--http2-prior-knowledge"])
                .run();
            assert_whole(&got, bytes, &format!("{manner:?} /{bytes}"));
            // curl reads to the announced length.
            if manner.contains(&"--no-content-length") {
                assert_eq!(got.trailers, [("x-sum".to_owned(), "7".to_owned())]);
            }
        }
    }
}

#[test]
fn content_goes_to_nghttpd_and_comes_back() {
    for manner in MANNERS {
        let Some(server) = Nghttpd::start("content_goes_to_nghttpd_and_comes_back", manner) else {
            return;
        };
        let node = server.behind_a_node();
        let scratch = Scratch::new("nghttpd-upload");
        for bytes in SIZES {
            let file = scratch.write("content", content(bytes));
            let from = format!("@{}", file.display());
            let got = Curl::new(&node.url("/echo"))
                .args(["--http2-prior-knowledge", "--data-binary", &from])
                .run();
            assert_whole(&got, bytes, &format!("{manner:?} POST {bytes}"));
        }
    }
}

/// The server's limit of streams is kept from the first request on: it refuses none.
#[test]
fn many_requests_share_the_streams_of_nghttpd() {
    for manner in MANNERS {
        let Some(server) = Nghttpd::start("many_requests_share_the_streams_of_nghttpd", manner)
        else {
            return;
        };
        let node = server.behind_a_node();
        let load = H2load::start("http://a/4096", node.gateway(), 1_000).finish();
        assert_eq!(
            (load.ok, load.failed),
            (1_000, 0),
            "{manner:?}: {}",
            load.text
        );
    }
}
