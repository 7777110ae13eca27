#!/usr/bin/python3
"""Asks a resolver directly and through the forwarder, and tells every difference.

nsd is the authority of two zones, one of them signed; unbound resolves and validates; Steppe forwards to
that unbound. Each of some 2,000 names and types is asked over UDP with 1,232 bytes, with and without DO,
and over TCP. What differs in rcode, flags or RRsets is printed, and is an error unless DIFFERENCES has it.

Usage: compare-dns.py PATH-OF-STEPPE [FOLDER]
Needs the Debian packages nsd, unbound, ldnsutils and python3-dnspython.
"""

import glob
import os
import pathlib
import socket
import subprocess
import sys
import tempfile
import time

import dns.exception
import dns.flags
import dns.message
import dns.query
import dns.rcode
import dns.rdatatype

# What a forwarder may answer otherwise than the resolver behind it, with the reason: a test of the type.
DIFFERENCES = {
    "ANY": "RFC 8482: refused here as the configuration says; the resolver tells what it has",
}
NAMES = 220
TYPES = ["A", "AAAA", "MX", "TXT", "SRV", "CAA", "HTTPS", "NAPTR", "TYPE65280"]


def free_port():
    """One that neither TCP nor UDP uses."""
    while True:
        with socket.socket() as tcp, socket.socket(type=socket.SOCK_DGRAM) as udp:
            tcp.bind(("127.0.0.1", 0))
            port = tcp.getsockname()[1]
            try:
                udp.bind(("127.0.0.1", port))
            except OSError:
                continue
            return port


def zone(origin):
    """Records of every shape that a forwarder could spoil."""
    lines = [
        f"$ORIGIN {origin}",
        "$TTL 3600",
        "@ SOA ns hostmaster 1 3600 600 86400 300",
        "@ NS ns",
        "ns A 8.8.0.1",
        "@ MX 10 mail",
        "mail A 8.8.0.2",
        "* TXT \"a wildcard\"",
        "deep.empty.non.terminal A 8.8.0.3",
        "loop-a CNAME loop-b",
        "loop-b CNAME loop-a",
        "moved DNAME there",
        "x.there A 8.8.0.4",
        "sub NS ns.sub",
        "ns.sub A 8.8.0.5",
        f"{'l' * 63}.{'m' * 63}.{'n' * 63} A 8.8.0.6",
        r"odd\.label\000byte A 8.8.0.7",
        "UPPER A 8.8.0.8",
    ]
    for number in range(NAMES):
        name = f"n{number}"
        lines += [
            f"{name} A 8.{number % 200 + 1}.1.1",
            f"{name} A 8.{number % 200 + 1}.1.2",
            f"{name} AAAA 2600::{number + 1:x}",
            f"{name} MX {number % 50} mail",
            f"{name} TXT " + " ".join(f'"{"t" * (10 + number)}"' for _ in range(1 + number % 9)),
            f"_s._tcp.{name} SRV 1 2 443 {name}",
            f"{name} CAA 0 issue \"ca.example\"",
            f"{name} HTTPS 1 . alpn=h2",
            f"{name} NAPTR 1 2 \"u\" \"s\" \"!a!b!\" .",
            f"{name} TYPE65280 \\# 4 0a0b0c0d",
            f"c{number} CNAME c{number}-1",
            f"c{number}-1 CNAME {name}",
        ]
    lines += [f"many A 8.9.{number // 200}.{number % 200 + 1}" for number in range(150)]
    return "\n".join(lines) + "\n"


def questions(origin):
    """Names and types, of those that are there and of those that are not."""
    for number in range(NAMES):
        yield from ((f"n{number}.{origin}", kind) for kind in TYPES if kind != "SRV")
        yield f"_s._tcp.n{number}.{origin}", "SRV"
        yield f"c{number}.{origin}", "A"
        yield f"wild{number}.{origin}", "TXT"
        yield f"wild{number}.{origin}", "A"
        yield f"n{number}.{origin}", "PTR"
        yield f"gone.n{number}.{origin}", "A"
    for name in ["", "ns.", "UPPER.", "deep.empty.non.terminal.", "non.terminal.", "loop-a.", "x.moved.",
                 "y.moved.", "sub.", "a.sub.", "many.", r"odd\.label\000byte.",
                 f"{'l' * 63}.{'m' * 63}.{'n' * 63}."]:
        # No DS of the zones themselves: who is asked for it is not here.
        for kind in ["A", "AAAA", "NS", "SOA", *(["DS"] if name else []), "DNSKEY", "NSEC", "CNAME", "DNAME", "ANY"]:
            yield f"{name}{origin}", kind


def sign(folder, origin):
    """Signs a zone with NSEC3 and returns its DNSKEY record, which the resolver trusts."""
    for flags in [["-k"], []]:
        made = ["ldns-keygen", *flags, "-a", "ECDSAP256SHA256", origin]
        subprocess.run(made, cwd=folder, check=True, stdout=subprocess.DEVNULL)
    keys = [key[: -len(".key")] for key in sorted(glob.glob(f"{folder}/K*.key"))]
    made = ["ldns-signzone", "-n", "-f", f"{folder}/signed.zone", f"{folder}/{origin}zone", *keys]
    subprocess.run(made, check=True)
    anchors = [" ".join(pathlib.Path(f"{key}.key").read_text().split()) for key in keys]
    return next(anchor for anchor in anchors if " 257 " in anchor).split(";")[0].strip()


def write_configurations(folder, ports, anchor):
    (folder / "nsd.conf").write_text(f"""
server:
  ip-address: 127.0.0.1
  port: {ports['nsd']}
  username: ""
  chroot: ""
  zonesdir: "{folder}"
  database: ""
  pidfile: "{folder}/nsd.pid"
  xfrdfile: "{folder}/xfrd.state"
  zonelistfile: "{folder}/zone.list"
remote-control:
  control-enable: no
zone:
  name: unsigned.example.
  zonefile: unsigned.example.zone
zone:
  name: signed.example.
  zonefile: signed.zone
""")
    (folder / "unbound.conf").write_text(f"""
server:
  directory: "{folder}"
  chroot: ""
  username: ""
  pidfile: ""
  use-syslog: no
  interface: 127.0.0.1
  port: {ports['unbound']}
  do-not-query-localhost: no
  edns-buffer-size: 1232
  max-udp-size: 1232
  minimal-responses: yes
  rrset-roundrobin: no
  trust-anchor: "{anchor}"
  domain-insecure: "unsigned.example."
remote-control:
  control-enable: no
stub-zone:
  name: unsigned.example.
  stub-addr: 127.0.0.1@{ports['nsd']}
stub-zone:
  name: signed.example.
  stub-addr: 127.0.0.1@{ports['nsd']}
""")
    (folder / "steppe.toml").write_text(f"""
[node]
memory_budget = "128MiB"
[admin]
listen = "127.0.0.1:{ports['admin']}"
[[dns.listener]]
listen = "127.0.0.1:{ports['steppe']}"
protocols = ["udp", "tcp"]
[dns.upstream.unbound]
servers = ["udp://127.0.0.1:{ports['unbound']}"]
policy = "failover"
[[dns.rule]]
qtype = ["ANY"]
block = "refused"
[[dns.rule]]
forward = "unbound"
""")


def start(folder, name, command, port):
    """Starts a server and waits until it accepts."""
    with open(folder / f"{name}.log", "wb") as log:
        process = subprocess.Popen(command, stdout=log, stderr=log)
    while True:
        try:
            socket.create_connection(("127.0.0.1", port)).close()
            return process
        except OSError:
            if process.poll() is not None:
                said = (folder / f"{name}.log").read_text()
                raise SystemExit(f"{name} ended with {process.returncode}: {said}") from None
            time.sleep(0.02)


def ask(port, name, kind, dnssec, over_tcp):
    query = dns.message.make_query(name, kind, want_dnssec=dnssec, payload=1232)
    send = dns.query.tcp if over_tcp else dns.query.udp
    try:
        return shape(send(query, "127.0.0.1", timeout=10, port=port))
    except dns.exception.DNSException as error:
        return f"{type(error).__name__}: {error}"


def shape(answer):
    """What has to be the same: no ids, no TTLs, no order of records.

    Nor what a client may not rely on: additional records, and what came along with TC (RFC 2181, section 9).
    """
    def rrsets(section):
        return sorted(
            (str(rrset.name).lower(), dns.rdatatype.to_text(rrset.rdtype), dns.rdatatype.to_text(rrset.covers),
             tuple(sorted(record.to_digestable() for record in rrset)))
            for rrset in section
        )
    flags = dns.flags.to_text(answer.flags), dns.flags.edns_to_text(answer.ednsflags)
    is_truncated = answer.flags & dns.flags.TC
    sections = [] if is_truncated else [rrsets(answer.answer), rrsets(answer.authority)]
    return dns.rcode.to_text(answer.rcode()), flags, sections


def main():
    steppe = pathlib.Path(sys.argv[1]).resolve()
    folder = pathlib.Path(sys.argv[2] if len(sys.argv) > 2 else tempfile.mkdtemp(prefix="compare-dns-"))
    folder.mkdir(parents=True, exist_ok=True)
    os.environ["PATH"] += ":/usr/sbin:/sbin"
    ports = {name: free_port() for name in ["nsd", "unbound", "steppe", "admin"]}
    for origin in ["unsigned.example.", "signed.example."]:
        (folder / f"{origin}zone").write_text(zone(origin))
    anchor = sign(folder, "signed.example.")
    write_configurations(folder, ports, anchor)
    running = []
    asked = told = 0
    excused = set()
    try:
        running.append(start(folder, "nsd", ["nsd", "-d", "-c", folder / "nsd.conf"], ports["nsd"]))
        command = ["unbound", "-d", "-p", "-c", folder / "unbound.conf"]
        running.append(start(folder, "unbound", command, ports["unbound"]))
        running.append(start(folder, "steppe", [steppe, "run", "-c", folder / "steppe.toml"], ports["steppe"]))
        for origin in ["unsigned.example.", "signed.example."]:
            for name, kind in questions(origin):
                for dnssec, over_tcp in [(False, False), (True, False), (True, True)]:
                    asked += 1
                    one = ask(ports["unbound"], name, kind, dnssec, over_tcp)
                    other = ask(ports["steppe"], name, kind, dnssec, over_tcp)
                    if one == other:
                        continue
                    # A resolver that says something else the second time is what the forwarder met.
                    if ask(ports["unbound"], name, kind, dnssec, over_tcp) == other:
                        continue
                    if kind in DIFFERENCES:
                        excused.add(kind)
                        continue
                    told += 1
                    if told <= 20:
                        how = f"{'DO' if dnssec else 'plain'} {'TCP' if over_tcp else 'UDP'}"
                        print(f"{name} {kind} ({how})\n  resolver  {one}\n  forwarder {other}")
    finally:
        for process in reversed(running):
            process.terminate()
            process.wait()
    for kind in sorted(excused):
        print(f"differs as it is meant to: {kind}: {DIFFERENCES[kind]}")
    print(f"{asked} questions asked of both: {told} differ")
    return 1 if told else 0


if __name__ == "__main__":
    sys.exit(main())
