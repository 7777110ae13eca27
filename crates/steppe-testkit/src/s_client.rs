//! OpenSSL's `s_client`.

use std::io::Write as _;
use std::net::SocketAddr;
use std::process::{Command, Stdio};

use crate::Scratch;
use crate::authority::Issued;

/// A run of `openssl s_client`.
#[derive(Debug)]
pub struct SClient {
    command: Command,
    scratch: Scratch,
    input: Vec<u8>,
}

/// The output of a run.
#[derive(Debug)]
pub struct SClientOutput {
    /// Exit code of `s_client`: 0 if there was a session.
    pub exit: i32,
    /// Standard output and error, with the bytes that the server sent.
    pub text: String,
}

impl SClient {
    /// Prepares to connect to `address`, without SNI, and trusts any certificate.
    pub fn new(address: SocketAddr) -> Self {
        let mut command = Command::new("timeout");
        // A server that says nothing must not keep a test waiting for ever.
        command.args(["60", "openssl", "s_client", "-connect"]);
        command.arg(address.to_string());
        Self {
            command,
            scratch: Scratch::new("s_client"),
            input: Vec::new(),
        }
    }

    /// Adds arguments.
    #[must_use]
    pub fn args<const N: usize>(mut self, args: [&str; N]) -> Self {
        self.command.args(args);
        self
    }

    /// Presents a client certificate.
    #[must_use]
    pub fn showing(mut self, issued: &Issued) -> Self {
        let cert = self.scratch.write("client.crt", &issued.cert);
        let key = self.scratch.write("client.key", &issued.key);
        self.command.arg("-cert").arg(cert).arg("-key").arg(key);
        self
    }

    /// Sends a request, and stays until the server closes.
    #[must_use]
    pub fn request(mut self, request: &str) -> Self {
        self.command.arg("-ign_eof");
        self.input(request)
    }

    /// Sets standard input: lines with one letter are commands of `s_client`.
    #[must_use]
    pub fn input(mut self, input: &str) -> Self {
        self.input = input.as_bytes().to_vec();
        self
    }

    /// Runs `s_client` to its end.
    ///
    /// # Panics
    /// When openssl isn't there.
    pub fn run(mut self) -> SClientOutput {
        let mut child = self
            .command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap_or_else(|error| panic!("can't run openssl: {error}"));
        if let Some(mut stdin) = child.stdin.take() {
            // The process may have ended already.
            let _ = stdin.write_all(&self.input);
        }
        let output = child.wait_with_output().expect("its output is read");
        let mut text = String::from_utf8_lossy(&output.stdout).into_owned();
        text.push_str(&String::from_utf8_lossy(&output.stderr));
        SClientOutput {
            exit: output.status.code().unwrap_or(-1),
            text,
        }
    }
}

impl SClientOutput {
    /// True if an earlier session was resumed.
    pub fn is_resumed(&self) -> bool {
        self.text.contains("\nReused, ")
    }
}
