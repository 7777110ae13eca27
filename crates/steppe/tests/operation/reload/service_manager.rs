//! The node under a service manager: its notifications, and inherited sockets.

use std::io::{Read, Write};
use std::net::{Ipv4Addr, TcpListener, TcpStream, UdpSocket};
use std::os::fd::AsRawFd;
use std::os::unix::net::UnixDatagram;
use std::process::Command;

use socket2::SockRef;
use steppe_testkit::{PATIENCE, Peer, Port, Process, Scratch, Steppe, eventually};

use rustix::process::Signal;

fn config(scratch: &Scratch, gateway: &str, admin: &Port) -> std::path::PathBuf {
    let text = format!(
        r#"
[node]
workers = 2
memory_budget = "64MiB"
drain_timeout = "7s"
[admin]
listen = "{}"
[[http.listener]]
listen = "{gateway}"
[http.upstream.hello]
respond = {{ body = "hello\n" }}
[[http.route]]
name = "hello"
path = "/{{rest*}}"
upstream = "hello"
"#,
        admin.address()
    );
    scratch.write("steppe.toml", text)
}

/// A fake of the manager's end of `NOTIFY_SOCKET`.
struct Manager(UnixDatagram);

impl Manager {
    fn bind(scratch: &Scratch) -> Self {
        let socket = UnixDatagram::bind(scratch.path().join("notify")).expect("binds");
        socket.set_read_timeout(Some(PATIENCE)).expect("is set");
        Self(socket)
    }

    #[track_caller]
    fn next(&self) -> String {
        let mut message = [0; 512];
        let length = self.0.recv(&mut message).expect("the node says something");
        String::from_utf8_lossy(&message[..length]).into_owned()
    }
}

#[test]
fn readiness_the_watchdog_and_the_stop_are_told() {
    let (scratch, admin, gateway) = (Scratch::new("notify"), Port::free(), Port::free());
    let manager = Manager::bind(&scratch);
    let mut command = Steppe::command();
    command
        .args(["run", "-c"])
        .arg(config(&scratch, &gateway.address().to_string(), &admin))
        .env("NOTIFY_SOCKET", scratch.path().join("notify"))
        .env("WATCHDOG_USEC", "4000000");
    let mut node = Process::start("steppe", command);
    assert_eq!(manager.next(), "READY=1\nSTATUS=serving with 2 workers");
    // The node serves as soon as it has sent READY=1.
    let answer = Peer::connect(gateway.address())
        .send("GET / HTTP/1.1\r\nhost: a\r\nconnection: close\r\n\r\n")
        .response();
    assert_eq!(answer.status(), 200);
    assert_eq!(manager.next(), "WATCHDOG=1");
    assert_eq!(manager.next(), "WATCHDOG=1", "again, while workers live");
    node.signal(Signal::TERM);
    let stopping = loop {
        let message = manager.next();
        if message != "WATCHDOG=1" {
            break message;
        }
    };
    assert_eq!(
        stopping,
        "STOPPING=1\nSTATUS=draining\nEXTEND_TIMEOUT_USEC=12000000"
    );
    assert!(node.wait(PATIENCE).success());
}

#[test]
fn an_inherited_socket_is_served_and_so_is_who_waited_in_it() {
    let (scratch, admin) = (Scratch::new("activation"), Port::free());
    let web = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("loopback");
    let spare = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).expect("loopback");
    let address = web.local_addr().expect("bound");
    let mut early = TcpStream::connect(address).expect("waits in the queue");
    early
        .write_all(b"GET / HTTP/1.1\r\nhost: a\r\nconnection: close\r\n\r\n")
        .expect("is queued");
    for socket in [SockRef::from(&web), SockRef::from(&spare)] {
        socket.set_cloexec(false).expect("is a descriptor");
    }
    // The shell passes descriptors 3 and 4 and becomes the node: `$$` is its process ID. The shell
    // is bash, since descriptors of several digits are beyond POSIX. Those here are far above the
    // sockets' own, whose numbers depend on other tests.
    let script = format!(
        "exec \"$0\" run -c \"$1\" 198<&{} 199<&{} 3<&198 4<&199 198<&- 199<&-",
        web.as_raw_fd(),
        spare.as_raw_fd()
    );
    let mut command = Command::new("bash");
    command
        .args([
            "-c",
            &format!("export LISTEN_PID=$$; {script}"),
            Steppe::program(),
        ])
        .arg(config(&scratch, &address.to_string(), &admin))
        .env("LISTEN_FDS", "2")
        .env("LISTEN_FDNAMES", "web:spare");
    let mut node = Process::start("steppe", command);
    let mut answer = String::new();
    early.set_read_timeout(Some(PATIENCE)).expect("is set");
    early.read_to_string(&mut answer).expect("is answered");
    assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
    // The log may come later than the response.
    eventually("it names the spare socket", || {
        node.said()
            .contains("spare (not a listening stream socket)")
    });
    let said = node.said();
    assert!(
        said.contains("no listener matches this inherited socket"),
        "{said}"
    );
    assert!(!said.contains("web ("), "the listener wants it: {said}");
    node.signal(Signal::TERM);
    assert!(node.wait(PATIENCE).success());
    // The socket is the manager's: clients that connect between two nodes wait in its queue.
    TcpStream::connect(address).expect("still listens");
}

#[test]
fn sockets_for_another_process_are_left_alone() {
    let (scratch, admin) = (Scratch::new("activation"), Port::free());
    let web = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("loopback");
    let address = web.local_addr().expect("bound").to_string();
    let mut command = Steppe::command();
    command
        .args(["run", "-c"])
        .arg(config(&scratch, &address, &admin))
        .env("LISTEN_FDS", "1")
        .env("LISTEN_PID", "1");
    let mut node = Process::start("steppe", command);
    assert_eq!(node.wait(PATIENCE).code(), Some(3));
    assert!(
        node.said().contains("is in use by another process"),
        "{}",
        node.said()
    );
}

#[test]
fn health_says_what_readyz_says() {
    let (scratch, admin, gateway) = (Scratch::new("health"), Port::free(), Port::free());
    let config = config(&scratch, &gateway.address().to_string(), &admin);
    let health = |args: [&str; 2]| {
        let mut command = Steppe::command();
        command.arg("health").args(args).output().expect("it runs")
    };
    let address = admin.address().to_string();
    let by_address = ["--admin", &address];
    let by_config = ["-c", config.to_str().expect("a name of ours")];
    let nobody = health(by_address);
    assert_eq!(nobody.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&nobody.stderr).contains("refused"));
    let manager = Manager::bind(&scratch);
    let mut command = Steppe::command();
    command
        .args(["run", "-c"])
        .arg(&config)
        .env("NOTIFY_SOCKET", scratch.path().join("notify"));
    let mut node = Process::start("steppe", command);
    assert!(manager.next().starts_with("READY=1"));
    for args in [by_address, by_config] {
        let ready = health(args);
        assert_eq!(ready.status.code(), Some(0), "{ready:?}");
        assert_eq!(ready.stdout, b"ready\n");
    }
    // Half a request keeps the drain waiting.
    let mut client = TcpStream::connect(gateway.address()).expect("listens");
    client.write_all(b"GET / HTTP/1.1\r\n").expect("is sent");
    let mut answer = [0; 1];
    let other = Peer::connect(gateway.address())
        .send("GET / HTTP/1.1\r\nhost: a\r\n\r\n")
        .response();
    assert_eq!(other.status(), 200);
    node.signal(Signal::TERM);
    assert!(manager.next().starts_with("STOPPING=1"));
    let draining = health(by_address);
    assert_eq!(draining.status.code(), Some(1), "{draining:?}");
    let said = String::from_utf8_lossy(&draining.stderr);
    assert!(said.contains("503 draining"), "{said}");
    client.write_all(b"host: a\r\n\r\n").expect("is sent");
    assert_eq!(client.read(&mut answer).expect("is answered"), 1);
    assert!(node.wait(PATIENCE).success());
}
