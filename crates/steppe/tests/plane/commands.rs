//! `steppe plane echo`, `call` and `bench`, run as commands.

use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpListener};
use std::path::Path;
use std::process::{Output, Stdio};

use rustix::process::Signal;
use steppe_plane::frame::{FrameHeader, FrameType, HEADER_BYTES, Hello, flag};
use steppe_testkit::{
    Authority, EtcdServer, Leaf, NodeConfig, PATIENCE, Port, Process, Scratch, Steppe, eventually,
    page_example,
};

/// A running worker, and its address.
struct Echo {
    process: Process,
    address: String,
}

impl Echo {
    fn start(arguments: &[&str]) -> Self {
        Self::start_in(Path::new("."), arguments)
    }

    fn start_in(folder: &Path, arguments: &[&str]) -> Self {
        let mut command = Steppe::command();
        command.current_dir(folder);
        command.args(["plane", "echo", "--listen", "127.0.0.1:0"]);
        command.args(arguments);
        let process = Process::start("echo", command);
        let listens = |said: &str| {
            let (_, address) = said.lines().next()?.rsplit_once(" on ")?;
            address.parse::<SocketAddr>().ok()
        };
        eventually("it listens", || listens(&process.said()).is_some());
        let address = listens(&process.said()).expect("it listens").to_string();
        Self { process, address }
    }

    fn call(&self, arguments: &[&str]) -> Output {
        let command = [&["plane", "call", &self.address], arguments].concat();
        steppe(&command)
    }

    /// True if a call is refused for lack of capacity.
    fn is_busy(&self) -> bool {
        let output = self.call(&["echo", "--no-queue", "--deadline", "1s"]);
        output.status.code() == Some(16)
    }

    #[track_caller]
    fn answer(&self, arguments: &[&str]) -> Vec<u8> {
        let output = self.call(arguments);
        assert!(output.status.success(), "{arguments:?}: {output:?}");
        output.stdout
    }

    /// Runs `bench`; returns its output.
    #[track_caller]
    fn bench(&self, arguments: &[&str]) -> String {
        let command = [&["plane", "bench", &self.address], arguments].concat();
        let output = steppe(&command);
        assert!(output.status.success(), "{arguments:?}: {output:?}");
        String::from_utf8(output.stdout).expect("text")
    }
}

fn steppe(arguments: &[&str]) -> Output {
    let mut command = Steppe::command();
    command.args(arguments).output().expect("it runs")
}

/// The exit code and standard error of a call without an answer.
#[track_caller]
fn refused(output: &Output) -> (i32, String) {
    assert!(output.stdout.is_empty(), "{output:?}");
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    (output.status.code().expect("it ended"), said)
}

#[test]
fn an_answer_is_printed_byte_by_byte() {
    let echo = Echo::start(&["--service", "mirror"]);
    assert!(echo.process.said().starts_with("serves mirror on "));
    assert_eq!(echo.answer(&["mirror", "--text", "hello"]), b"hello");
    assert_eq!(echo.answer(&["mirror"]), b"");
    let scratch = Scratch::new("plane");
    let file = scratch.join("body");
    let body: Vec<u8> = (0..1_000_000_u32)
        .map(|at| (at % 251).to_le_bytes()[0])
        .collect();
    std::fs::write(&file, &body).expect("it is written");
    let name = file.to_str().expect("text");
    assert!(echo.answer(&["mirror", "--data", name]) == body);
    let mut call = Steppe::command()
        .args(["plane", "call", &echo.address, "mirror", "--data", "-"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("it starts");
    let mut input = call.stdin.take().expect("a pipe");
    input.write_all(&body).expect("it reads");
    drop(input);
    assert!(call.wait_with_output().expect("it ends").stdout == body);
    let output = echo.call(&["mirror", "--text", "hello", "--verbose"]);
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(
        said.starts_with("> mirror, 5 bytes\n< ok, 5 bytes in "),
        "{said}"
    );
}

/// The commands of the plane in a text, without their comments.
fn commands(text: &str) -> Vec<Vec<String>> {
    let lines = text
        .lines()
        .filter_map(|line| line.strip_prefix("steppe plane "));
    let words = |line: &str| -> Vec<String> {
        let command = line.split(" #").next().unwrap_or_default();
        command.split_whitespace().map(str::to_owned).collect()
    };
    lines.map(words).collect()
}

/// Runs the commands of the documentation with addresses and files of its own.
struct Reader {
    scratch: Scratch,
    /// The relay of the guide.
    node: Steppe,
    relay: String,
    etcd: EtcdServer,
    /// The worker that was started last with `--listen`.
    echo: Echo,
    /// Workers that are registered with the relay.
    registered: Vec<Process>,
}

impl Reader {
    fn new() -> Self {
        let scratch = Scratch::new("plane");
        scratch.write("request.json", "{}");
        let authority = Authority::new("plane");
        for name in ["callers.pem", "workers.pem"] {
            scratch.write(name, authority.pem());
        }
        for name in ["worker", "me"] {
            let issued = authority.issue(&Leaf::named(&["127.0.0.1"]));
            scratch.write(&format!("{name}.crt"), &issued.cert);
            scratch.write(&format!("{name}.key"), &issued.key);
        }
        let relay = Port::free().keep();
        let config = NodeConfig::parse(&page_example("plane/guide", "A relay"))
            .set("admin.listen", "{admin}")
            .each("plane.listener", |l| l.set("listen", relay));
        Self {
            scratch,
            node: Steppe::builder().start(&config),
            relay: relay.to_string(),
            etcd: EtcdServer::start(),
            echo: Echo::start(&[]),
            registered: Vec::new(),
        }
    }

    /// A word of a page, in which an address of the page is replaced by this reader's own.
    fn own(&self, word: &str) -> String {
        let etcd = self.etcd.url().replace("http://", "");
        let addresses = [
            ("127.0.0.1:7701", &self.echo.address),
            ("127.0.0.1:7700", &self.relay),
            ("127.0.0.1:2379", &etcd),
        ];
        let found = addresses.iter().find(|(shown, _)| word.contains(*shown));
        found.map_or_else(|| word.to_owned(), |(shown, own)| word.replace(*shown, own))
    }

    #[track_caller]
    fn run(&mut self, shown: &[String]) {
        let words: Vec<String> = shown.iter().map(|word| self.own(word)).collect();
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        match words.as_slice() {
            ["echo", "--listen", _, others @ ..] => {
                self.echo = Echo::start_in(self.scratch.path(), others);
            }
            ["echo", ..] => self.register(&words),
            _ => self.prints(&words),
        }
    }

    #[track_caller]
    fn register(&mut self, words: &[&str]) {
        assert_eq!(words[1..], ["--register", self.relay.as_str()]);
        let mut command = Steppe::command();
        command.arg("plane").args(words);
        let process = Process::start("echo", command);
        eventually("it is registered", || process.said().contains("serves "));
        self.registered.push(process);
    }

    #[track_caller]
    fn prints(&self, words: &[&str]) {
        let mut command = Steppe::command();
        command.arg("plane").args(words);
        if words == ["workers"] {
            command.arg(self.node.admin().to_string());
        }
        let output = command.current_dir(self.scratch.path()).output();
        let output = output.expect("it runs");
        assert!(output.status.success(), "{words:?}: {output:?}");
        let said = String::from_utf8_lossy(&output.stdout);
        match words {
            ["call", .., "--text", text] | ["call", _, _, "--text", text, ..] => {
                assert_eq!(said, *text);
            }
            ["call", ..] => assert_eq!(said, "{}"),
            ["workers"] => assert!(said.starts_with("SERVICE  WORKER"), "{said}"),
            ["workers", ..] => assert_eq!(said, format!("{}  echo\n", self.echo.address)),
            _ => assert!(
                said.starts_with("1000 answered, 0 refused, 0 failed"),
                "{said}"
            ),
        }
    }
}

#[test]
fn commands_of_the_readme_and_of_the_pages_work() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let mut reader = Reader::new();
    for (page, count) in [
        ("README.md", 2),
        ("docs/plane/README.md", 4),
        ("docs/plane/guide.md", 9),
        ("docs/plane/discovery.md", 3),
    ] {
        let text = std::fs::read_to_string(root.join(page)).expect("the page is there");
        let shown = commands(&text);
        assert_eq!(shown.len(), count, "{page}: {shown:?}");
        for words in &shown {
            reader.run(words);
        }
    }
}

#[test]
fn each_status_has_a_code_and_is_named() {
    let echo = Echo::start(&["--budget", "4MiB", "--calls", "1", "--hold", "1h"]);
    let (code, said) = refused(&echo.call(&["other"]));
    assert_eq!(
        (code, said.as_str()),
        (14, "steppe: unknown service: other\n")
    );
    let (code, said) = refused(&echo.call(&["echo", "--deadline", "50ms"]));
    assert_eq!(code, 13, "{said}");
    assert!(said.starts_with("steppe: deadline exceeded"), "{said}");
    let scratch = Scratch::new("plane");
    let file = scratch.join("body");
    std::fs::write(&file, vec![0; 5 << 20]).expect("it is written");
    let (code, said) = refused(&echo.call(&["echo", "--data", file.to_str().expect("text")]));
    assert_eq!(code, 17, "{said}");
    let mut held = Steppe::command();
    held.args(["plane", "bench", &echo.address, "echo", "--requests", "1"]);
    let _held = Process::start("bench", held);
    let mut said = String::new();
    eventually("another is refused", || {
        let ask = ["echo", "--no-queue", "--deadline", "1s"];
        let (code, why) = refused(&echo.call(&ask));
        said = why;
        code == 16
    });
    assert!(
        said.starts_with("steppe: overloaded: the service already runs"),
        "{said}"
    );
    let nobody = Port::free();
    let address = nobody.address().to_string();
    let (code, said) = refused(&steppe(&["plane", "call", &address, "echo"]));
    assert_eq!(code, 5, "{said}");
    for wrong in [
        &["plane", "call", "127.0.0.1:1"][..],
        &["plane", "call", "127.0.0.1:1", "echo", "--data", "/nowhere"],
        &[
            "plane",
            "call",
            "127.0.0.1:1",
            "echo",
            "--data",
            "a",
            "--text",
            "b",
        ],
        &["plane", "bench", "127.0.0.1:1", "echo"],
        &[
            "plane",
            "bench",
            "127.0.0.1:1",
            "echo",
            "--requests",
            "1",
            "--rate",
            "0",
        ],
        &["plane", "echo"],
        &[
            "plane",
            "echo",
            "--listen",
            "127.0.0.1:0",
            "--register",
            "127.0.0.1:1",
        ],
        &["plane", "echo", "--listen", "127.0.0.1:0", "--budget", "64"],
    ] {
        assert_eq!(steppe(wrong).status.code(), Some(2), "{wrong:?}");
    }
}

#[test]
fn a_worker_drains_what_is_open_and_says_so() {
    let mut echo = Echo::start(&["--hold", "5s", "--calls", "1"]);
    let mut call = Steppe::command();
    call.args(["plane", "call", &echo.address, "echo", "--text", "finished"]);
    let mut call = Process::start("call", call);
    eventually("it is held", || echo.is_busy());
    echo.process.signal(Signal::TERM);
    assert!(echo.process.wait(PATIENCE).success());
    assert!(echo.process.said().ends_with("\ndrained\n"));
    assert!(call.wait(PATIENCE).success());
    assert_eq!(call.said(), "finished");
}

#[test]
fn a_worker_dials_a_relay_names_its_service_there_and_drains() {
    let relay = TcpListener::bind("127.0.0.1:0").expect("loopback");
    let address = relay.local_addr().expect("it is bound").to_string();
    let mut command = Steppe::command();
    command.args([
        "plane",
        "echo",
        "--register",
        &address,
        "--service",
        "mirror",
    ]);
    let mut echo = Process::start("echo", command);
    let (mut socket, _) = relay.accept().expect("it dials");
    let hello = Hello {
        oldest: 1,
        newest: 1,
        streams_max: 10,
        stream_credit: 131_072,
        connection_credit: 131_072,
    };
    let mut bytes = Vec::new();
    hello.write(&mut bytes);
    socket.write_all(&bytes).expect("it reads");
    let (mut payload, mut named) = (Vec::new(), Vec::new());
    let ping = loop {
        let mut header = [0; HEADER_BYTES];
        socket.read_exact(&mut header).expect("a frame");
        let header = FrameHeader::read(&header);
        payload.resize(header.len as usize, 0);
        socket.read_exact(&mut payload).expect("its payload");
        match header.frame_type {
            FrameType::SERVICES => named.clone_from(&payload),
            FrameType::PING => break header,
            _ => {}
        }
    };
    assert!(named.windows(6).any(|word| word == b"mirror"));
    assert_eq!(echo.said(), "", "the relay has not answered");
    let flags = flag::ACK;
    let answer = FrameHeader { flags, ..ping };
    socket.write_all(&answer.to_bytes()).expect("it reads");
    let serves = format!("serves mirror through {address}\n");
    eventually("it says so", || echo.said() == serves);
    echo.signal(Signal::TERM);
    assert!(echo.wait(PATIENCE).success());
    assert_eq!(echo.said(), format!("{serves}drained\n"));
}

#[test]
fn a_worker_that_can_not_finish_cuts_and_says_so() {
    let mut echo = Echo::start(&["--hold", "1h", "--drain-timeout", "50ms", "--calls", "1"]);
    let mut held = Steppe::command();
    held.args(["plane", "call", &echo.address, "echo"]);
    let mut held = Process::start("call", held);
    eventually("it is held", || echo.is_busy());
    echo.process.signal(Signal::TERM);
    assert_eq!(echo.process.wait(PATIENCE).code(), Some(4));
    assert!(!echo.process.said().contains("drained"));
    assert_eq!(held.wait(PATIENCE).code(), Some(21), "{}", held.said());
}

#[test]
fn bodies_are_read_as_json_where_that_is_wanted() {
    let echo = Echo::start(&["--json"]);
    let text = r#"{"a":[1,2,3]}"#;
    assert_eq!(echo.answer(&["echo", "--text", text]), text.as_bytes());
    let (code, said) = refused(&echo.call(&["echo", "--text", "{"]));
    assert_eq!(code, 12);
    assert!(
        said.starts_with("steppe: invalid: EOF while parsing"),
        "{said}"
    );
    let said = echo.bench(&["echo", "--json", "--bytes", "1000", "--requests", "10"]);
    assert!(
        said.starts_with("10 answered, 0 refused, 0 failed"),
        "{said}"
    );
    // The parsed values would take more memory than the worker has.
    let scratch = Scratch::new("plane");
    let file = scratch.join("body");
    std::fs::write(&file, format!("[{}0]", "0,".repeat(100_000))).expect("it is written");
    let (code, said) = refused(&echo.call(&["echo", "--data", file.to_str().expect("text")]));
    assert_eq!(code, 17, "{said}");
}

#[test]
fn what_was_answered_refused_and_failed_is_counted() {
    let echo = Echo::start(&[]);
    let said = echo.bench(&[
        "echo",
        "--bytes",
        "100000",
        "--concurrency",
        "8",
        "--connections",
        "2",
        "--requests",
        "200",
    ]);
    assert!(
        said.starts_with("200 answered, 0 refused, 0 failed"),
        "{said}"
    );
    let said = echo.bench(&["other", "--requests", "3"]);
    assert!(
        said.starts_with("0 answered, 0 refused, 3 failed"),
        "{said}"
    );
    assert!(
        said.contains("\nfailed      unknown service ×3\n"),
        "{said}"
    );
    let said = echo.bench(&["echo", "--requests", "20", "--rate", "1000"]);
    assert!(said.starts_with("20 answered"), "{said}");
    assert!(said.contains("\ndue         20 calls\n"), "{said}");
    let said = echo.bench(&["echo", "--duration", "200ms", "--bytes", "10"]);
    assert!(said.contains(" answered, 0 refused, 0 failed"), "{said}");
    let busy = Echo::start(&["--calls", "1", "--hold", "200ms"]);
    let lines = busy.bench(&[
        "echo",
        "--requests",
        "8",
        "--concurrency",
        "8",
        "--no-queue",
        "--lab",
    ]);
    let said = |word: &str| -> u64 {
        let lines = lines.lines().filter(|line| line.starts_with(word));
        let counts = lines.map(|line| line.rsplit_once(' ').expect("a count").1);
        counts
            .map(|count| count.parse::<u64>().expect("a count"))
            .sum()
    };
    assert!(said("latency_us") >= 1, "{lines}");
    assert!(said("refused") >= 1, "{lines}");
    assert_eq!(said("latency_us") + said("refused"), 8, "{lines}");
}

#[test]
fn answers_of_many_messages_are_taken_as_they_come() {
    let echo = Echo::start(&["--tokens", "100", "--hold", "50ms"]);
    let said = echo.bench(&["echo", "--requests", "5", "--stream"]);
    assert!(
        said.starts_with("5 answered, 0 refused, 0 failed"),
        "{said}"
    );
    assert!(said.contains("; 500 messages\n"), "{said}");
}

#[test]
fn a_bench_that_is_interrupted_tells_what_it_has_counted() {
    let echo = Echo::start(&["--hold", "1h", "--calls", "1"]);
    let mut bench = Steppe::command();
    bench.args(["plane", "bench", &echo.address, "echo", "--no-queue"]);
    bench.args(["--concurrency", "2", "--duration", "1h"]);
    let mut bench = Process::start("bench", bench);
    eventually("it is at work", || echo.is_busy());
    bench.signal(Signal::INT);
    assert!(bench.wait(PATIENCE).success());
    let said = bench.said();
    assert!(said.starts_with("0 answered, "), "{said}");
    assert!(said.contains("\nrefused     overloaded ×"), "{said}");
}

/// A request that is larger than one frame, and an answer of many messages.
#[test]
fn an_answer_of_many_messages_is_printed_as_it_comes() {
    let echo = Echo::start(&["--tokens", "3", "--hold", "30ms"]);
    let scratch = Scratch::new("plane");
    let body = scratch.write("body", "x".repeat(220_000));
    let data = body.to_str().expect("text");
    let arguments = ["echo", "--data", data, "--stream"];
    assert_eq!(echo.answer(&arguments), b"token token token ");
    let (code, said) = refused(&echo.call(&["echo", "--data", data]));
    assert_eq!(code, 12);
    assert!(said.contains("more than one message"), "{said}");
    let bench = ["echo", "--bytes", "220000", "--requests", "2", "--stream"];
    let said = echo.bench(&bench);
    assert!(
        said.starts_with("2 answered, 0 refused, 0 failed"),
        "{said}"
    );
    assert!(said.contains("6 messages"), "{said}");
}
