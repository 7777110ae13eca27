//! Chromium without a window, driven over the DevTools protocol.
//!
//! A page's complaints are kept: console errors, uncaught exceptions, failed loads, and
//! violations of a Content Security Policy, which Chromium logs as errors.
//!
//! <https://chromedevtools.github.io/devtools-protocol/>

use std::net::TcpStream;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tungstenite::{Message, WebSocket};

use crate::{Process, Scratch};

/// Chromium has several processes and starts cold: beside other programs on two cores an answer took over 30 s.
const PATIENCE: Duration = Duration::from_secs(120);

/// A page in a browser of its own.
#[derive(Debug)]
pub struct Chromium {
    socket: WebSocket<TcpStream>,
    /// The session of the one tab; commands go there.
    session: String,
    next_id: u64,
    complaints: Vec<String>,
    _process: Process,
    _scratch: Scratch,
}

/// Events that are complaints.
const COMPLAINTS: &[&str] = &["Runtime.exceptionThrown", "Log.entryAdded"];

impl Chromium {
    /// Starts the browser with an empty page.
    ///
    /// # Errors
    /// It isn't installed.
    ///
    /// # Panics
    /// When it does not start in time.
    pub fn start() -> Result<Self, String> {
        Self::launch(Scratch::new("chromium"), &[])
    }

    /// Starts the browser with an empty page, and this DNS server over HTTPS (RFC 8484) as its only resolver.
    /// `template` is a URI template (RFC 6570); the server's key is the one with this digest
    /// ([`crate::Issued::key_digest`]), in a certificate of any issuer.
    ///
    /// # Errors
    /// It isn't installed.
    ///
    /// # Panics
    /// When it does not start in time.
    pub fn start_with_doh(template: &str, key_digest: &str) -> Result<Self, String> {
        let scratch = Scratch::new("chromium");
        let settings = json!({ "dns_over_https": { "mode": "secure", "templates": template } });
        scratch.write("Local State", settings.to_string());
        let believed = format!("--ignore-certificate-errors-spki-list={key_digest}");
        Self::launch(scratch, &[&believed])
    }

    /// Starts the browser with its settings in `scratch`.
    fn launch(scratch: Scratch, arguments: &[&str]) -> Result<Self, String> {
        let program = ["chromium", "chromium-browser", "google-chrome"]
            .into_iter()
            .find(|name| is_installed(name))
            .ok_or("no Chromium on this machine")?;
        let mut command = Command::new(program);
        command
            .args(["--headless=new", "--disable-gpu", "--no-first-run"])
            .args(["--disable-dev-shm-usage", "--disable-extensions"])
            // Tests run as root in containers; the page is our own.
            .args(["--no-sandbox", "--remote-debugging-port=0"])
            .arg(format!("--user-data-dir={}", scratch.path().display()))
            .args(arguments)
            .arg("about:blank");
        let process = Process::start("chromium", command);
        let socket = connect(&scratch.join("DevToolsActivePort"));
        let mut browser = Self {
            socket,
            session: String::new(),
            next_id: 0,
            complaints: Vec::new(),
            _process: process,
            _scratch: scratch,
        };
        browser.open_tab();
        Ok(browser)
    }

    fn open_tab(&mut self) {
        let target = self.call("Target.createTarget", json!({ "url": "about:blank" }));
        let target = json!({ "targetId": target["targetId"], "flatten": true });
        let session = self.call("Target.attachToTarget", target);
        session["sessionId"]
            .as_str()
            .expect("a tab has a session")
            .clone_into(&mut self.session);
        for domain in ["Runtime", "Log", "Page"] {
            self.call(&format!("{domain}.enable"), json!({}));
        }
    }

    /// Navigates to a page.
    #[track_caller]
    pub fn go(&mut self, url: &str) {
        let gone = self.call("Page.navigate", json!({ "url": url }));
        assert_eq!(gone["errorText"], Value::Null, "{url}");
    }

    /// Accepts any certificate from now on: Chromium has no option for an authority.
    #[track_caller]
    pub fn trust_any_certificate(&mut self) {
        self.call(
            "Security.setIgnoreCertificateErrors",
            json!({ "ignore": true }),
        );
    }

    /// Shows the page as a screen of this size would, a phone's if `width` is that of one.
    #[track_caller]
    pub fn resize(&mut self, width: u32, height: u32) {
        let size = json!({
            "width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 500,
        });
        self.call("Emulation.setDeviceMetricsOverride", size);
    }

    /// The value of an expression on the page.
    ///
    /// # Panics
    /// When it throws.
    #[track_caller]
    pub fn evaluate(&mut self, expression: &str) -> Value {
        self.try_evaluate(expression)
            .unwrap_or_else(|thrown| panic!("{expression}: {thrown}"))
    }

    fn try_evaluate(&mut self, expression: &str) -> Result<Value, Value> {
        let wanted = json!({
            "expression": expression, "returnByValue": true, "awaitPromise": true,
        });
        let mut got = self.try_call("Runtime.evaluate", wanted)?;
        match got["exceptionDetails"].take() {
            Value::Null => Ok(got["result"]["value"].take()),
            thrown => Err(thrown),
        }
    }

    /// Waits until an expression is true. A page that isn't loaded yet may throw.
    ///
    /// # Panics
    /// When it isn't in time.
    #[track_caller]
    pub fn await_true(&mut self, expression: &str) {
        let end = Instant::now() + PATIENCE;
        loop {
            let got = self.try_evaluate(expression);
            if got == Ok(Value::Bool(true)) {
                return;
            }
            let complaints = &self.complaints;
            assert!(
                Instant::now() < end,
                "{expression}: {got:?}, {complaints:#?}"
            );
            std::thread::sleep(Duration::from_millis(50));
        }
    }

    /// Complaints of the page so far.
    pub fn complaints(&mut self) -> Vec<String> {
        // Events from before this answer have been received before it.
        self.evaluate("1");
        self.complaints.clone()
    }

    #[track_caller]
    fn call(&mut self, method: &str, parameters: Value) -> Value {
        self.try_call(method, parameters)
            .unwrap_or_else(|error| panic!("{method}: {error}"))
    }

    fn try_call(&mut self, method: &str, parameters: Value) -> Result<Value, Value> {
        self.next_id += 1;
        let id = self.next_id;
        let mut command = json!({ "id": id, "method": method, "params": parameters });
        if !self.session.is_empty() {
            command["sessionId"] = json!(self.session);
        }
        self.socket
            .send(Message::text(command.to_string()))
            .expect("Chromium reads");
        loop {
            let mut message = self.read();
            if message["id"] == id {
                return match message["error"].take() {
                    Value::Null => Ok(message["result"].take()),
                    error => Err(error),
                };
            }
            self.note(&message);
        }
    }

    fn read(&mut self) -> Value {
        let message = self.socket.read().expect("Chromium answers");
        let text = message.into_text().expect("the protocol is text");
        serde_json::from_str(&text).expect("the protocol is JSON")
    }

    fn note(&mut self, event: &Value) {
        let method = event["method"].as_str().unwrap_or_default();
        let is_console_error =
            method == "Runtime.consoleAPICalled" && event["params"]["type"] == "error";
        let is_harmless = event["params"]["entry"]["level"] == "info"
            || event["params"]["entry"]["level"] == "verbose";
        if is_console_error || (COMPLAINTS.contains(&method) && !is_harmless) {
            self.complaints.push(event["params"].to_string());
        }
    }
}

fn is_installed(program: &str) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path).any(|directory| directory.join(program).is_file())
}

/// Connects to the address that the browser writes to `file`: a port, and a path on the next line.
#[track_caller]
fn connect(file: &Path) -> WebSocket<TcpStream> {
    let end = Instant::now() + PATIENCE;
    loop {
        let text = std::fs::read_to_string(file).unwrap_or_default();
        if let Some((port, path)) = text.split_once('\n') {
            let stream = TcpStream::connect(format!("127.0.0.1:{port}")).expect("it listens");
            stream
                .set_read_timeout(Some(PATIENCE))
                .expect("a time to wait can be set");
            let url = format!("ws://127.0.0.1:{port}{}", path.trim());
            let connected = tungstenite::client(url, stream);
            return connected.expect("it speaks WebSocket").0;
        }
        assert!(Instant::now() < end, "Chromium does not start");
        std::thread::sleep(Duration::from_millis(20));
    }
}
