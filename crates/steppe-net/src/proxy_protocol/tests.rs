//! Headers of the specification, and those that are none.

use proptest::prelude::*;

use super::*;

fn for_ends(source: &str, destination: &str) -> ProxyHeader {
    ProxyHeader::For(Ends {
        source: source.parse().expect("an address"),
        destination: destination.parse().expect("an address"),
    })
}

fn v2(command: u8, family: u8, content: &[u8]) -> Vec<u8> {
    let mut bytes = V2_START.to_vec();
    bytes.extend([command, family]);
    let length = u16::try_from(content.len()).expect("short");
    bytes.extend(length.to_be_bytes());
    bytes.extend(content);
    bytes
}

/// §2.1 has these, with the lengths that it counts.
#[test]
fn the_lines_of_the_specification_are_read() {
    let longest = "PROXY TCP6 ffff:f...f:ffff ffff:f...f:ffff 65535 65535\r\n"
        .replace("f...f", "ffff:ffff:ffff:ffff:ffff:ffff");
    let all = "ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff";
    let unknown = format!("PROXY UNKNOWN {all} {all} 65535 65535\r\n");
    for (line, bytes, header) in [
        (
            "PROXY TCP4 255.255.255.255 255.255.255.255 65535 65535\r\n",
            56,
            for_ends("255.255.255.255:65535", "255.255.255.255:65535"),
        ),
        (
            &longest,
            104,
            for_ends(&format!("[{all}]:65535"), &format!("[{all}]:65535")),
        ),
        ("PROXY UNKNOWN\r\n", 15, ProxyHeader::Own),
        (&unknown, 107, ProxyHeader::Own),
        (
            "PROXY TCP4 192.168.0.1 192.168.0.11 56324 443\r\n",
            47,
            for_ends("192.168.0.1:56324", "192.168.0.11:443"),
        ),
    ] {
        assert_eq!(line.len(), bytes, "{line}");
        assert_eq!(parse(line.as_bytes()), Ok(Some((header, bytes))), "{line}");
        let request = format!("{line}GET / HTTP/1.1\r\n\r\n");
        assert_eq!(parse(request.as_bytes()), Ok(Some((header, bytes))));
    }
}

#[test]
fn other_lines_are_refused() {
    for line in [
        "GET / HTTP/1.1\r\n",
        "PROXY\r\n",
        "PROXY \r\n",
        "proxy TCP4 192.0.2.1 192.0.2.2 1 2\r\n",
        "PROXY TCP5 192.0.2.1 192.0.2.2 1 2\r\n",
        "PROXY TCP4 192.0.2.1 192.0.2.2 1\r\n",
        "PROXY TCP4 192.0.2.1 192.0.2.2 1 2 3\r\n",
        "PROXY TCP4  192.0.2.1 192.0.2.2 1 2\r\n",
        "PROXY TCP4 192.0.2.1 192.0.2.2 1 65536\r\n",
        "PROXY TCP4 192.0.2.1 192.0.2.2 01 2\r\n",
        "PROXY TCP4 192.0.2.1 192.0.2.2 +1 2\r\n",
        "PROXY TCP4 192.0.2.1 192.0.2.2 1 \r\n",
        "PROXY TCP4 192.0.2.01 192.0.2.2 1 2\r\n",
        "PROXY TCP4 ::1 ::1 1 2\r\n",
        "PROXY TCP6 192.0.2.1 192.0.2.2 1 2\r\n",
        "PROXY TCP4\t192.0.2.1 192.0.2.2 1 2\r\n",
    ] {
        assert_eq!(parse(line.as_bytes()), Err(Malformed), "{line:?}");
    }
    let endless = format!("PROXY UNKNOWN {}", "x".repeat(PROXY_V1_BYTES_MAX));
    assert_eq!(parse(endless.as_bytes()), Err(Malformed));
    // A line end without its other half is none.
    assert_eq!(parse(b"PROXY UNKNOWN\n"), Ok(None));
}

#[test]
fn binary_headers_are_read() {
    let inet = [192, 0, 2, 1, 198, 51, 100, 2, 0x1f, 0x90, 0, 80];
    let header = for_ends("192.0.2.1:8080", "198.51.100.2:80");
    assert_eq!(parse(&v2(0x21, 0x11, &inet)), Ok(Some((header, 28))));
    // Extensions follow the addresses.
    let mut extended = inet.to_vec();
    extended.extend([0x03, 0, 4, 1, 2, 3, 4]);
    assert_eq!(parse(&v2(0x21, 0x11, &extended)), Ok(Some((header, 35))));
    let mut inet6 = [0; 36];
    (inet6[15], inet6[31], inet6[33], inet6[35]) = (1, 2, 3, 4);
    let header = for_ends("[::1]:3", "[::2]:4");
    assert_eq!(parse(&v2(0x21, 0x21, &inet6)), Ok(Some((header, 52))));
    let unix = [b'/'; 216];
    assert_eq!(
        parse(&v2(0x21, 0x31, &unix)),
        Ok(Some((ProxyHeader::Unix, 232)))
    );
}

#[test]
fn binary_headers_that_name_nobody_leave_the_connection_its_own_ends() {
    let own = |bytes: &[u8]| Ok(Some((ProxyHeader::Own, bytes.len())));
    for bytes in [
        // LOCAL, whatever follows.
        v2(0x20, 0x00, b""),
        v2(0x20, 0x11, &[1; 12]),
        // AF_UNSPEC, and datagrams.
        v2(0x21, 0x00, b"abc"),
        v2(0x21, 0x12, &[1; 12]),
        v2(0x21, 0x10, &[1; 12]),
    ] {
        assert_eq!(parse(&bytes), own(&bytes), "{bytes:?}");
    }
}

#[test]
fn other_binary_headers_are_refused() {
    for bytes in [
        v2(0x11, 0x11, &[0; 12]),
        v2(0x22, 0x11, &[0; 12]),
        v2(0x21, 0x41, &[0; 12]),
        v2(0x21, 0x13, &[0; 12]),
        v2(0x21, 0x11, &[0; 11]),
        v2(0x21, 0x21, &[0; 35]),
        v2(0x21, 0x31, &[0; 215]),
        v2(0x20, 0x00, &[0; PROXY_V2_BYTES_MAX - V2_FIXED_BYTES + 1]),
    ] {
        assert_eq!(parse(&bytes), Err(Malformed), "{bytes:?}");
    }
    let most = v2(0x20, 0x00, &[0; PROXY_V2_BYTES_MAX - V2_FIXED_BYTES]);
    assert!(parse(&most).is_ok_and(|header| header.is_some()));
}

#[test]
fn ends_of_two_families_are_told_in_the_larger() {
    let ends = Ends {
        source: "192.0.2.1:1".parse().expect("an address"),
        destination: "[2001:db8::1]:2".parse().expect("an address"),
    };
    let line = EncodedHeader::new(ProxyVersion::V1, Some(ends));
    assert_eq!(
        line.as_bytes(),
        b"PROXY TCP6 ::ffff:192.0.2.1 2001:db8::1 1 2\r\n"
    );
    let binary = EncodedHeader::new(ProxyVersion::V2, Some(ends));
    let header = for_ends("[::ffff:192.0.2.1]:1", "[2001:db8::1]:2");
    assert_eq!(parse(binary.as_bytes()), Ok(Some((header, 52))));
}

fn addresses() -> impl Strategy<Value = SocketAddr> {
    let v4 = any::<(u32, u16)>().prop_map(|(ip, port)| (Ipv4Addr::from(ip), port).into());
    let v6 = any::<(u128, u16)>().prop_map(|(ip, port)| (Ipv6Addr::from(ip), port).into());
    prop_oneof![v4, v6]
}

fn canonical(address: SocketAddr) -> SocketAddr {
    SocketAddr::new(address.ip().to_canonical(), address.port())
}

proptest! {
    /// A header that is written reads back, however its bytes are cut.
    #[test]
    fn headers_read_back(source in addresses(), destination in addresses(), is_v2: bool) {
        let version = if is_v2 { ProxyVersion::V2 } else { ProxyVersion::V1 };
        let encoded = EncodedHeader::new(version, Some(Ends { source, destination }));
        let bytes = encoded.as_bytes();
        for end in 0..bytes.len() {
            prop_assert_eq!(parse(&bytes[..end]), Ok(None));
        }
        let Ok(Some((ProxyHeader::For(ends), count))) = parse(bytes) else {
            panic!("{bytes:?}");
        };
        prop_assert_eq!(count, bytes.len());
        prop_assert_eq!(canonical(ends.source), canonical(source));
        prop_assert_eq!(canonical(ends.destination), canonical(destination));
    }

    /// More bytes change nothing about a header that was read or refused.
    #[test]
    fn a_verdict_is_final(bytes in prop::collection::vec(any::<u8>(), 0..80), is_v2: bool, at in 0..80_usize) {
        let start: &[u8] = if is_v2 { V2_START } else { b"PROXY TCP4 1.1.1.1 " };
        let bytes = [start, &bytes].concat();
        let at = at.min(bytes.len());
        match parse(&bytes[..at]) {
            Ok(None) => {}
            verdict => prop_assert_eq!(parse(&bytes), verdict),
        }
    }
}
