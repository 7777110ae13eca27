//! Published lists, on the real process: their content neither stops a node nor keeps one from starting, and it never
//! takes more than the budget.

use std::fmt::Write as _;
use std::fs::File;
use std::io::{BufRead, BufReader, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, SystemTime};

use steppe_testkit::{Forwarder, MemoryMeter, Port, Scratch, Steppe, SteppeBuilder, eventually};

use crate::forwarder::ask;

/// A budget of 24 MiB: the index of [`large_list`] alone takes more.
const CONFIG: &str = r#"
[dns.cache]
bytes = "1MiB"
[dns.list.ads]
urls = ["http://{publisher}/ads.txt?secret"]
files = ["own.txt"]
refresh = "1m"
store = "{store}"
required = {required}
[[dns.rule]]
list = "ads"
block = "nxdomain"
[[dns.rule]]
records = "192.0.2.80"
"#;

const BUDGET_BYTES: u64 = 24 << 20;

/// Memory of a node beside its budget.
const BESIDE_BYTES: u64 = 24 << 20;

const BLOCKED: (u8, u8) = (3, 0);
const PASSED: (u8, u8) = (0, 1);

/// A server that serves a list to every client.
struct Publisher {
    address: SocketAddr,
    list: Arc<Mutex<Arc<str>>>,
}

impl Publisher {
    fn of(list: &str) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
        let address = listener.local_addr().expect("is bound");
        let shared = Arc::new(Mutex::new(Arc::from(list)));
        let published = Arc::clone(&shared);
        // The thread ends with the test's process.
        std::thread::spawn(move || {
            for client in listener.incoming().flatten() {
                let list = Arc::clone(&*published.lock().unwrap_or_else(PoisonError::into_inner));
                // A client that leaves is no failure of the test.
                let _ = publish(client, &list);
            }
        });
        Self {
            address,
            list: shared,
        }
    }

    fn publish(&self, list: String) {
        *self.list.lock().unwrap_or_else(PoisonError::into_inner) = list.into();
    }
}

fn publish(client: TcpStream, list: &str) -> std::io::Result<()> {
    let mut head = BufReader::new(&client).lines();
    while head
        .next()
        .transpose()?
        .is_some_and(|line| !line.is_empty())
    {}
    let len = list.len();
    write!(
        &client,
        "HTTP/1.1 200 OK\r\ncontent-length: {len}\r\nconnection: close\r\n\r\n"
    )?;
    (&client).write_all(list.as_bytes())
}

/// A list of 3,000,000 rules, 50 MB.
fn large_list() -> String {
    let mut list = String::with_capacity(64 << 20);
    for number in 0..3_000_000 {
        writeln!(list, "n{number}.example").expect("a string takes it");
    }
    list
}

fn builder<'a>(publisher: SocketAddr, store: &Scratch) -> SteppeBuilder<'a> {
    Steppe::builder()
        .with("workers", 1)
        .with("budget", "24MiB")
        .with("publisher", publisher)
        .with("store", store.path().display())
        .with_file("own.txt", "own.example\n")
}

/// The path of the stored list.
fn stored(store: &Scratch) -> PathBuf {
    let files = std::fs::read_dir(store.path()).expect("is there");
    let mut files = files.map(|file| file.expect("is read").path());
    let is_list = |file: &PathBuf| file.extension().is_some_and(|end| end == "txt");
    files.find(is_list).expect("a list is stored")
}

/// Makes the stored list appear old to the node.
fn make_old(node: &Steppe, store: &Scratch) {
    let mut said = stored(store).into_os_string();
    said.push(".fetched");
    let said = File::options().write(true).open(said).expect("is there");
    said.set_modified(SystemTime::UNIX_EPOCH + Duration::from_secs(1 << 30))
        .expect("is set");
    node.hang_up();
}

fn fetches(node: &Steppe, result: &str) -> f64 {
    let labels = [("result", result)];
    node.metrics().sum("steppe_dns_list_fetches_total", &labels)
}

fn assert_within_budget(node: &Steppe) {
    let peak = MemoryMeter::watch(node.id()).finish().high_water_bytes;
    println!("peak {} KiB", peak >> 10);
    assert!(peak <= BUDGET_BYTES + BESIDE_BYTES, "{peak} bytes");
}

#[test]
fn a_list_that_does_not_fit_leaves_the_last_good_one_in_force_and_in_place() {
    let (publisher, store) = (Publisher::of("||ads.example^\n"), Scratch::new("store"));
    let start = || {
        builder(publisher.address, &store)
            .with("required", false)
            .start_forwarder(CONFIG)
    };
    let Forwarder { node, plain } = start();
    eventually("the list is in force", || {
        ask(plain, "x.ads.example") == BLOCKED
    });
    assert_eq!(ask(plain, "n7.example"), PASSED);

    publisher.publish(large_list());
    make_old(&node, &store);
    eventually("the large one is refused", || {
        fetches(&node, "refused") >= 1.0
    });
    assert_eq!(ask(plain, "x.ads.example"), BLOCKED);
    assert_eq!(ask(plain, "n7.example"), PASSED);
    let kept = std::fs::read_to_string(stored(&store)).expect("is there");
    assert_eq!(kept, "||ads.example^\n");
    let said = node.said();
    assert!(
        said.contains("a fetched list is not in force") && !said.contains("secret"),
        "{said}"
    );
    assert_within_budget(&node);
    assert!(node.stop().success());

    let Forwarder { node, plain } = start();
    assert_eq!(ask(plain, "x.ads.example"), BLOCKED);
    assert_eq!(node.admin_get("/readyz").text(), "ready\n");
    // The next valid list comes into force as usual.
    publisher.publish("||new.example^\n".to_owned());
    make_old(&node, &store);
    eventually("the next one is in force", || {
        ask(plain, "new.example") == BLOCKED
    });
    assert_eq!(ask(plain, "x.ads.example"), PASSED);
    assert!(node.stop().success());
}

#[test]
fn a_stored_list_that_does_not_fit_stops_no_start_unless_it_is_required() {
    let (publisher, store) = (Publisher::of("||ads.example^\n"), Scratch::new("store"));
    let start = |required| builder(publisher.address, &store).with("required", required);
    let node = start(true).start_forwarder(CONFIG).node;
    // The list was fetched before the node was ready.
    assert_eq!(node.admin_get("/readyz").text(), "ready\n");
    assert!(node.stop().success());

    // The budget is smaller than before, or the stored list is of an earlier version.
    std::fs::write(stored(&store), large_list()).expect("can be written");
    publisher.publish("<html>Not today</html>\n".to_owned());
    let Forwarder { node, plain } = start(false).start_forwarder(CONFIG);
    assert_eq!(ask(plain, "own.example"), BLOCKED);
    assert_eq!(ask(plain, "n7.example"), PASSED);
    assert_eq!(
        node.admin_get("/readyz").text(),
        "ready\nlist ads is not in force: no room in the memory budget\n"
    );
    let left_out = |node: &Steppe| {
        let labels = [("list", "ads")];
        node.metrics()
            .sum("steppe_dns_list_files_left_out", &labels)
    };
    assert_eq!(left_out(&node), 1.0);
    let said = node.said();
    assert!(
        said.contains("list not in force") && !said.contains("secret"),
        "{said}"
    );
    assert_within_budget(&node);
    // A list that fits comes into force at once.
    publisher.publish("||new.example^\n".to_owned());
    node.hang_up();
    eventually("a good one is in force", || {
        ask(plain, "new.example") == BLOCKED
    });
    assert_eq!((left_out(&node), ask(plain, "own.example")), (0.0, BLOCKED));
    assert!(node.stop().success());

    std::fs::write(stored(&store), large_list()).expect("can be written");
    let text = format!(
        "[node]\nworkers = 1\nmemory_budget = \"{{budget}}\"\n[[dns.listener]]\nlisten = \"{}\"\n{CONFIG}",
        Port::free().keep()
    );
    let (status, said) = start(true).run(&["run", "-c"], text);
    assert_eq!(status.code(), Some(3), "{said}");
    assert!(said.contains("dns.list: not enough memory"), "{said}");
}
