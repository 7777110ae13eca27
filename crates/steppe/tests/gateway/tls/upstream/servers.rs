//! Servers of other authors beside nginx.

use std::net::TcpStream;
use std::process::Command;

use steppe_testkit::Process;

use super::*;

/// A running server, whose certificate is in files.
struct Served {
    process: Process,
    port: Port,
    _files: Scratch,
}

fn start(
    name: &str,
    authority: &Authority,
    command: impl FnOnce(&Scratch, &Port) -> Command,
) -> Served {
    let (port, files) = (Port::free(), Scratch::new(name));
    let issued = authority.issue(&local());
    files.write("cert.pem", &issued.cert);
    files.write("key.pem", &issued.key);
    let mut command = command(&files, &port);
    command.current_dir(files.path());
    let process = Process::start(name, command);
    eventually("it listens", || TcpStream::connect(port.address()).is_ok());
    Served {
        process,
        port,
        _files: files,
    }
}

const SERVER: &str = r#"
const fs = require("fs");
const options = { cert: fs.readFileSync("cert.pem"), key: fs.readFileSync("key.pem") };
const server = require("https").createServer(options, (request, response) => {
  let length = 0;
  request.on("data", (part) => { length += part.length; });
  request.on("end", () => response.end(`${request.socket.getProtocol()} ${length}`));
});
server.listen(Number(process.argv[2]), "127.0.0.1");
"#;

#[test]
fn node_js_is_asked() {
    if Command::new("node").arg("--version").output().is_err() {
        return steppe_testkit::skip("node_js_is_asked", "node is not installed");
    }
    let authority = Authority::new("one");
    let served = start("node", &authority, |files, port| {
        let script = files.write("server.js", SERVER);
        let mut command = Command::new("node");
        command.arg(script).arg(port.number().to_string());
        command
    });
    let node = node(&authority, served.port.address(), (CA, ""));
    assert_eq!(get(&node).text(), "TLSv1.3 0");
    let content = "x".repeat(300_000);
    let request = format!("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 300000\r\n\r\n{content}");
    for _ in 0..3 {
        assert_eq!(node.exchange(&request).text(), "TLSv1.3 300000");
    }
}

/// The page of `openssl s_server` is delimited by close, and ends with `close_notify`.
#[test]
fn openssls_own_server_is_asked() {
    let authority = Authority::new("one");
    for version in ["-tls1_2", "-tls1_3"] {
        let served = start("s_server", &authority, |_, port| {
            let mut command = Command::new("openssl");
            command.args([
                "s_server", "-www", "-cert", "cert.pem", "-key", "key.pem", version,
            ]);
            command.args(["-accept", &port.address().to_string()]);
            command
        });
        let node = node(&authority, served.port.address(), (CA, ""));
        let answer = get(&node);
        assert_eq!(answer.status(), 200, "{}", served.process.said());
        assert!(
            answer.text().contains("</HTML>") || answer.text().contains("</html>"),
            "{}",
            answer.text()
        );
    }
}
