//! Chromium without a window, driven over the DevTools protocol.
//!
//! Commands go through a pair of pipes (`--remote-debugging-pipe`: JSON, each message ended by a
//! zero byte), so that no port is taken and no WebSocket is needed. A shell puts the pipes where
//! Chromium looks for them, descriptors 3 and 4.
//!
//! A page's complaints (console errors, exceptions, violations of its policy) and its requests are
//! kept.
//!
//! <https://chromedevtools.github.io/devtools-protocol/>

use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use serde_json::{Value, json};
use steppe_testkit::skip;

/// A page in a browser of its own.
pub struct Chromium {
    process: Child,
    commands: ChildStdin,
    messages: BufReader<ChildStdout>,
    profile: PathBuf,
    /// The session of the one tab.
    session: String,
    next_id: u64,
    pub complaints: Vec<String>,
    pub requests: Vec<String>,
}

const PROGRAMS: [&str; 3] = ["chromium", "chromium-browser", "google-chrome"];

impl Chromium {
    /// Starts Chromium with an empty page; `None`, and a line that says so, where it isn't
    /// installed.
    pub fn start(test: &str) -> Option<Self> {
        let Some(program) = PROGRAMS.into_iter().find_map(installed) else {
            skip(test, "no Chromium on this machine");
            return None;
        };
        let profile = std::env::temp_dir().join(format!("{test}-{}", std::process::id()));
        let mut process = Command::new("sh")
            .args([
                "-c",
                r#"exec "$@" 3<&0 4>&1 0</dev/null 1>/dev/null 2>&1"#,
                "sh",
            ])
            .arg(program)
            .args([
                "--headless=new",
                "--disable-gpu",
                "--no-first-run",
                "--disable-sync",
            ])
            .args([
                "--disable-dev-shm-usage",
                "--disable-extensions",
                "--disable-quic",
            ])
            .args([
                "--disable-background-networking",
                "--disable-component-update",
            ])
            // Tests run as root in containers; the page is our own.
            .args(["--no-sandbox", "--remote-debugging-pipe"])
            .arg(format!("--user-data-dir={}", profile.display()))
            .arg("about:blank")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("a shell");
        let commands = process.stdin.take().expect("a pipe");
        let messages = BufReader::new(process.stdout.take().expect("a pipe"));
        let mut browser = Self {
            process,
            commands,
            messages,
            profile,
            session: String::new(),
            next_id: 0,
            complaints: Vec::new(),
            requests: Vec::new(),
        };
        browser.open_tab();
        Some(browser)
    }

    fn open_tab(&mut self) {
        let target = self.call("Target.createTarget", json!({ "url": "about:blank" }));
        let target = json!({ "targetId": target["targetId"], "flatten": true });
        let session = self.call("Target.attachToTarget", target);
        session["sessionId"]
            .as_str()
            .expect("a tab has a session")
            .clone_into(&mut self.session);
        for domain in ["Runtime", "Log", "Page", "Network"] {
            self.call(&format!("{domain}.enable"), json!({}));
        }
    }

    /// Goes to a file and waits until the page is loaded with all its requests.
    pub fn open(&mut self, path: &Path) {
        self.complaints.clear();
        self.requests.clear();
        let url = format!("file://{}", path.display());
        let gone = self.call("Page.navigate", json!({ "url": url }));
        assert_eq!(gone["errorText"], Value::Null, "{url}");
        while !self.read_is_loaded() {}
        // Complaints during the load come before this answer.
        self.evaluate("1");
    }

    fn read_is_loaded(&mut self) -> bool {
        let message = self.read();
        self.note(&message);
        message["method"] == "Page.loadEventFired"
    }

    /// Shows the page at this width, with a phone's settings if `width` is that of one.
    pub fn resize(&mut self, width: u32) {
        let size = json!({
            "width": width, "height": 800, "deviceScaleFactor": 1, "mobile": width < 500,
        });
        self.call("Emulation.setDeviceMetricsOverride", size);
    }

    /// Sets the preferred color scheme, `light` or `dark`.
    pub fn prefer(&mut self, scheme: &str) {
        let feature = json!([{ "name": "prefers-color-scheme", "value": scheme }]);
        self.call("Emulation.setEmulatedMedia", json!({ "features": feature }));
    }

    /// The value of an expression on the page.
    ///
    /// # Panics
    /// When the expression throws.
    pub fn evaluate(&mut self, expression: &str) -> Value {
        let wanted = json!({ "expression": expression, "returnByValue": true });
        let mut got = self.call("Runtime.evaluate", wanted);
        assert_eq!(got["exceptionDetails"], Value::Null, "{expression}");
        got["result"]["value"].take()
    }

    fn call(&mut self, method: &str, parameters: Value) -> Value {
        self.next_id += 1;
        let id = self.next_id;
        let mut command = json!({ "id": id, "method": method, "params": parameters });
        if !self.session.is_empty() {
            command["sessionId"] = json!(self.session);
        }
        let mut text = command.to_string();
        text.push('\0');
        self.commands
            .write_all(text.as_bytes())
            .expect("Chromium reads");
        self.commands.flush().expect("Chromium reads");
        loop {
            let mut message = self.read();
            if message["id"] == id {
                assert_eq!(message["error"], Value::Null, "{method}");
                return message["result"].take();
            }
            self.note(&message);
        }
    }

    fn read(&mut self) -> Value {
        let mut text = Vec::new();
        let len = self
            .messages
            .read_until(0, &mut text)
            .expect("Chromium answers");
        assert!(len > 0, "Chromium ended");
        text.pop();
        serde_json::from_slice(&text).expect("the protocol is JSON")
    }

    fn note(&mut self, event: &Value) {
        let parameters = &event["params"];
        match event["method"].as_str().unwrap_or_default() {
            "Runtime.consoleAPICalled" | "Runtime.exceptionThrown" | "Log.entryAdded" => {
                self.complaints.push(parameters.to_string());
            }
            "Network.requestWillBeSent" => {
                let url = parameters["request"]["url"].as_str().unwrap_or_default();
                self.requests.push(url.to_owned());
            }
            _ => {}
        }
    }
}

impl Drop for Chromium {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
        let _ = std::fs::remove_dir_all(&self.profile);
    }
}

fn installed(program: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let mut folders = std::env::split_paths(&path);
    folders.find_map(|folder| Some(folder.join(program)).filter(|file| file.is_file()))
}
