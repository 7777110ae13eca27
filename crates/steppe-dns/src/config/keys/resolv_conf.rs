//! The name servers of a resolv.conf(5), as glibc reads it.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::Path;
use std::{fs, io};

use crate::config::{Server, Transport};

/// glibc's `MAXNS`: further servers are not asked.
pub(super) const SERVERS_MAX: usize = 3;
const PORT: u16 = 53;

/// The name servers of a file, except this forwarder's own listeners.
///
/// If the file is missing or names none, the server is that of the local host (resolv.conf(5)).
pub(super) fn servers(path: &Path, is_own: impl Fn(SocketAddr) -> bool) -> Vec<Server> {
    let text = fs::read_to_string(path).unwrap_or_else(|error| {
        if error.kind() != io::ErrorKind::NotFound {
            tracing::warn!(path = %path.display(), %error, "name servers can't be read");
        }
        String::new()
    });
    let mut named = name_servers(&text);
    if named.is_empty() {
        named.push(Ipv4Addr::LOCALHOST.into());
    }
    let addresses = named.into_iter().map(|ip| SocketAddr::new(ip, PORT));
    let others = addresses.filter(|address| !is_own(*address));
    let servers: Vec<Server> = others
        .map(|address| Server::at(Transport::Udp, address))
        .collect();
    if servers.is_empty() {
        tracing::warn!(path = %path.display(), "all name servers of the file are listeners of this forwarder");
    }
    servers
}

fn name_servers(text: &str) -> Vec<IpAddr> {
    let address = |line: &str| {
        let mut words = line.split_ascii_whitespace();
        let is_server = words.next() == Some("nameserver");
        words.next().filter(|_| is_server)?.parse().ok()
    };
    text.lines().filter_map(address).take(SERVERS_MAX).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn three_name_servers_count_and_other_lines_do_not() {
        let text = "# nameserver 1.1.1.1\nsearch example.org\nnameserver 192.0.2.1\n\
                    nameserver\t2001:db8::1 # an office\nnameserver fe80::1%eth0\n options ndots:1\n\
                    nameserver 192.0.2.2\nnameserver 192.0.2.3\n";
        let named: Vec<String> = name_servers(text).iter().map(IpAddr::to_string).collect();
        assert_eq!(named, ["192.0.2.1", "2001:db8::1", "192.0.2.2"]);
    }

    #[test]
    fn without_any_this_host_is_asked_unless_that_is_the_forwarder() {
        let nowhere = Path::new("/nonexistent/resolv.conf");
        let found = servers(nowhere, |_| false);
        let want: SocketAddr = "127.0.0.1:53".parse().expect("an address");
        assert_eq!(found.len(), 1);
        assert_eq!(found[0].socket_address(), Some(want));
        assert_eq!(servers(nowhere, |address| address == want), []);
    }
}
