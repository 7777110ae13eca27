//! A machine of its own, as far as the network is concerned, at the end of a bad line.
//!
//! A network namespace, tied to this one by a pair of virtual interfaces. The kernel's netem delays
//! and drops packets on the line. A kernel without netem drops them by a rule of its filter, and
//! delays them in a queue ([`DelayQueue`]). All of it takes root.

use std::fs::File;
use std::net::Ipv4Addr;
use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use crate::delay_queue::DelayQueue;
use crate::file_lock::try_lock;
use crate::name_server::works;

/// A network namespace, removed with its guard. Its processes must have ended before.
#[derive(Debug)]
pub struct Namespace {
    name: String,
    /// This side's end of the line.
    device: String,
    address: Ipv4Addr,
    has_netem: bool,
    queue: Option<DelayQueue>,
    /// Lock that keeps the network from other tests.
    _lock: File,
}

/// The other side's end of the line.
const DEVICE: &str = "eth0";

/// Number of networks of four addresses each in 198.18.0.0/15, which is reserved for tests (RFC 2544).
const NETWORKS: u32 = 1 << 15;

/// Both addresses of a network that no other test uses, and the lock that holds it.
fn free_network() -> ([Ipv4Addr; 2], File) {
    let start = std::process::id();
    let mut numbers = (0..NETWORKS).map(|step| start.wrapping_add(step) % NETWORKS);
    let free = numbers.find_map(|number| Some((number, try_lock(&format!("network-{number}"))?)));
    let (number, lock) = free.expect("a network is free");
    let first = u32::from(Ipv4Addr::new(198, 18, 0, 0)) + number * 4;
    ([first + 1, first + 2].map(Ipv4Addr::from), lock)
}

impl Namespace {
    /// Makes a namespace, at the end of a good line.
    ///
    /// # Errors
    /// The reason why this machine doesn't allow it, for the message of a skipped test.
    pub fn new() -> Result<Self, String> {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let (process, count) = (std::process::id(), COUNT.fetch_add(1, Ordering::Relaxed));
        let ([here, there], lock) = free_network();
        let mut namespace = Self {
            name: format!("steppe-{process}-{count}"),
            device: format!("st{process}x{count}"),
            address: there,
            has_netem: false,
            queue: None,
            _lock: lock,
        };
        let (name, device) = (namespace.name.clone(), namespace.device.clone());
        try_ip(&format!("netns add {name}"))?;
        try_ip(&format!(
            "link add {device} type veth peer name {DEVICE} netns {name}"
        ))?;
        try_ip(&format!("addr add {here}/30 dev {device}"))?;
        try_ip(&format!("link set {device} up"))?;
        try_ip(&format!("-n {name} addr add {there}/30 dev {DEVICE}"))?;
        try_ip(&format!("-n {name} link set {DEVICE} up"))?;
        namespace.has_netem = namespace.netem("delay 0ms");
        if !namespace.has_netem {
            namespace.inside("iptables -w -S")?;
        }
        Ok(namespace)
    }

    /// The namespace's address at the end of the line.
    pub fn address(&self) -> Ipv4Addr {
        self.address
    }

    /// Prefix of a command line that runs a program inside.
    pub fn prefix(&self) -> [&str; 4] {
        ["ip", "netns", "exec", &self.name]
    }

    /// Delays every packet on its way in.
    ///
    /// # Panics
    /// When the kernel doesn't take it.
    pub fn delay(&mut self, delay: Duration) {
        self.mend();
        if self.has_netem {
            assert!(self.netem(&format!("delay {}ms", delay.as_millis())));
            return;
        }
        self.queue = Some(DelayQueue::start(&self.name, delay));
        self.rule("-p tcp -j NFQUEUE --queue-num 0 --queue-bypass");
    }

    /// Loses so many of a hundred packets of TCP on their way in, at random.
    ///
    /// # Panics
    /// When the kernel doesn't take it.
    pub fn lose(&mut self, percent: u8) {
        self.lose_of("tcp", percent);
    }

    /// Loses so many of a hundred datagrams of UDP on their way in, at random.
    ///
    /// # Panics
    /// When the kernel doesn't take it.
    pub fn lose_datagrams(&mut self, percent: u8) {
        self.lose_of("udp", percent);
    }

    fn lose_of(&mut self, protocol: &str, percent: u8) {
        self.mend();
        if self.has_netem {
            assert!(self.netem(&format!("loss {percent}%")));
            return;
        }
        let share = f64::from(percent) / 100.0;
        self.rule(&format!(
            "-p {protocol} -m statistic --mode random --probability {share} -j DROP"
        ));
    }

    /// Number of packets lost since [`Namespace::lose`].
    ///
    /// # Panics
    /// When the kernel doesn't report it.
    pub fn lost(&self) -> u64 {
        let (text, number) = if self.has_netem {
            let text = run(&format!("tc -s qdisc show dev {}", self.device));
            let number = |text: &str| {
                text.split("dropped ")
                    .nth(1)?
                    .split(',')
                    .next()?
                    .parse()
                    .ok()
            };
            (text, number as fn(&str) -> Option<u64>)
        } else {
            let number = |text: &str| {
                let rule = text.lines().find(|line| line.contains("DROP  "))?;
                rule.split_whitespace().next()?.parse().ok()
            };
            (self.inside("iptables -w -nvxL INPUT"), number as _)
        };
        let text = text.unwrap_or_else(|error| panic!("{error}"));
        number(&text).unwrap_or_else(|| panic!("no count of lost packets: {text}"))
    }

    /// Cuts the line for good, without notice to either side's connections.
    ///
    /// # Panics
    /// When the kernel doesn't take it.
    pub fn cut(&self) {
        let cut = try_ip(&format!("-n {} link set {DEVICE} down", self.name));
        cut.expect("a line can be cut");
    }

    /// This side's address at the end of the line.
    pub fn gateway(&self) -> Ipv4Addr {
        Ipv4Addr::from(u32::from(self.address) - 1)
    }

    /// Makes the line good again.
    ///
    /// # Panics
    /// When the kernel doesn't take it.
    pub fn mend(&mut self) {
        if self.has_netem {
            assert!(self.netem("delay 0ms"));
            return;
        }
        let flushed = self.inside("iptables -w -F");
        flushed.expect("rules can be taken away");
        // Packets that the queue still holds are lost.
        self.queue = None;
    }

    /// True if the kernel accepts `what` as the settings of netem on the line.
    fn netem(&self, what: &str) -> bool {
        let command = format!("tc qdisc replace dev {} root netem {what}", self.device);
        run(&command).is_ok()
    }

    fn rule(&self, rule: &str) {
        let added = self.inside(&format!("iptables -w -A INPUT {rule}"));
        added.expect("a rule can be added");
    }

    fn inside(&self, command: &str) -> Result<String, String> {
        run(&format!("{} {command}", self.prefix().join(" ")))
    }
}

impl Drop for Namespace {
    fn drop(&mut self) {
        self.queue = None;
        let device = self.device.as_str();
        let _ = works(&["ip", "link", "del", device]);
        let _ = works(&["ip", "netns", "del", &self.name]);
    }
}

fn try_ip(command: &str) -> Result<String, String> {
    run(&format!("ip {command}"))
}

/// Runs a command of plain words; returns its output, or the reason of its failure.
fn run(command: &str) -> Result<String, String> {
    let mut words = command.split_whitespace();
    let program = words.next().unwrap_or_default();
    let output = Command::new(program).args(words).output();
    let output = output.map_err(|error| format!("{program}: {error}"))?;
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    if output.status.success() {
        return Ok(text(&output.stdout));
    }
    Err(format!("{command}: {}", text(&output.stderr).trim()))
}
