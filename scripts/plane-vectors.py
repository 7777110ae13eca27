#!/usr/bin/python3
"""Reads the vectors of the request plane by docs/plane/protocol.md alone, and tells every difference.

A second reader, which shares no code with crates/steppe-plane: where both agree on the vectors, the page says
enough to build a third.

Usage: plane-vectors.py docs/plane/protocol-vectors.json
"""

import json
import struct
import sys

TYPES = [None, "HELLO", "HEADERS", "DATA", "CREDIT", "RESET", "END", "PING", "GOAWAY", "SERVICES"]
FLAGS = {"HEADERS": 3, "DATA": 1, "RESET": 3, "PING": 1, "GOAWAY": 1}
MAGIC = int.from_bytes(b"STEPPEPL", "big")
HEADER = struct.Struct(">IBBHIIQ")


class Dismissed(Exception):
    """The peer is dismissed, with a code of §8."""

    def __init__(self, code):
        super().__init__(code)
        self.code = code


class Unsupported(Exception):
    """A field of HEADERS that must be understood: the stream's end, not the connection's."""


def check(condition, code):
    if not condition:
        raise Dismissed(code)


def visible(value, also=()):
    check(1 <= len(value) <= 128 and all(0x21 <= byte <= 0x7E or byte in also for byte in value), 2)
    return value.decode("ascii")


def integer(size):
    def read(value):
        check(len(value) == size, 2)
        return int.from_bytes(value, "big")

    return read


def trace_parent(value):
    check(len(value) == 26 and value[0] != 0xFF and any(value[1:17]) and any(value[17:25]), 2)
    return value.hex()


def idempotency_key(value):
    check(1 <= len(value) <= 64, 2)
    return value.hex()


REQUEST = {
    1: ("service", visible),
    2: ("length", integer(8)),
    3: ("deadline_micros", integer(8)),
    4: ("content_type", lambda value: visible(value, b" ")),
    5: ("trace_parent", trace_parent),
    6: ("idempotency_key", idempotency_key),
}
RESPONSE = {number: REQUEST[number] for number in (2, 4)}
HELLO = {
    1: ("streams_max", lambda value: min(integer(4)(value), 65536)),
    2: ("stream_credit", integer(4)),
    3: ("connection_credit", integer(8)),
}
SERVICE = {1: ("name", visible), 2: ("calls_max", integer(4))}


def fields(payload, known, of_requests=()):
    """The known fields by name; §3."""
    found, last, unknown = {}, 0, False
    while payload:
        check(len(payload) >= 3, 2)
        number, length = struct.unpack(">BH", payload[:3])
        value, payload = payload[3 : 3 + length], payload[3 + length :]
        check(number > last and len(value) == length, 2)
        check(number not in of_requests, 2)
        last = number
        if number in known:
            name, read = known[number]
            found[name] = read(value)
        else:
            unknown |= number < 128
    return found, unknown


def read_header(data):
    """The header's fields, or None where the frame is to be skipped; §3."""
    length, number, flags, _, stream, code, aux = HEADER.unpack(data)
    known = 1 <= number < len(TYPES)
    check(known or number >= 128, 1)
    name = TYPES[number] if known else None
    check(length <= (65536 if name in (None, "DATA") else 4096), 1)
    if known:
        check(flags & 0x0F & ~FLAGS.get(name, 0) == 0, 1)
        if name != "CREDIT":
            check((stream != 0) == (name in ("HEADERS", "DATA", "RESET", "END")), 1)
    return {"type": name, "flags": flags, "stream": stream, "code": code, "aux": aux}, length


def hello(frame, payload):
    found, unknown = fields(payload, HELLO)
    check(not unknown, 2)
    found = {"streams_max": 0, "stream_credit": 131072, "connection_credit": 131072} | found
    check(found["stream_credit"] >= 131072 and 131072 <= found["connection_credit"] <= 1 << 62, 2)
    return {"oldest": frame["code"] & 0xFF, "newest": frame["code"] >> 8 & 0xFF} | found


def head(frame, payload, direction):
    if direction == "request":
        found, unknown = fields(payload, REQUEST)
        check("service" in found, 2)
    else:
        found, unknown = fields(payload, RESPONSE, of_requests=(1, 3, 5, 6))
    check(frame["flags"] & 1 or found.get("length", 0) <= 65536, 2)
    if unknown:
        raise Unsupported
    return found


def services(payload):
    found = []
    while payload:
        check(len(payload) >= 2, 2)
        length = int.from_bytes(payload[:2], "big")
        entry, payload = payload[2 : 2 + length], payload[2 + length :]
        check(len(entry) == length and len(found) < 64, 2)
        service, unknown = fields(entry, SERVICE)
        check("name" in service and not unknown, 2)
        check(all(service["name"] != other["name"] for other in found), 2)
        found.append(service)
    return found


def split(data):
    """The frames of a byte stream, those that are skipped left out."""
    while data:
        frame, length = read_header(data[:24])
        payload, data = data[24 : 24 + length], data[24 + length :]
        assert len(payload) == length, "a vector ends within a frame"
        if frame["type"]:
            yield frame, payload


def meaning(frame, payload, direction):
    """A frame as the vectors describe it."""
    name = frame["type"]
    said = dict(frame, aux=f"{frame['aux']:016x}")
    if name == "HELLO":
        said["fields"] = hello(frame, payload)
    elif name == "HEADERS":
        said |= {"direction": direction, "fields": head(frame, payload, direction)}
    elif name == "DATA":
        said["payload"] = payload.hex()
    elif name in ("RESET", "END", "GOAWAY"):
        said["text"] = payload.decode("utf-8")
    elif name == "SERVICES":
        said["services"] = services(payload)
    return said


class Receiver:
    """Accepted a connection; grants nothing and answers nothing. §4 to §8."""

    def __init__(self):
        self.is_connected, self.last, self.goaways, self.granted = False, -1, 0, 0
        self.left, self.streams = 262144, {}

    def receive(self, frame, payload):
        name, stream = frame["type"], frame["stream"]
        if not self.is_connected:
            check(name == "HELLO" and frame["aux"] == MAGIC, 3)
            said = hello(frame, payload)
            check(said["oldest"] <= 1 <= said["newest"], 4)
            self.is_connected = True
            return
        check(name != "HELLO", 3)
        if name == "HEADERS":
            self.open(frame, payload)
        elif name == "GOAWAY":
            self.goaways += 1
            check(self.goaways <= 4, 10)
        elif name == "SERVICES":
            services(payload)
        elif stream:
            check(stream % 2 == 1 and stream <= self.last, 5)
            if stream in self.streams:
                getattr(self, name.lower())(frame, payload, self.streams[stream])
        elif name == "CREDIT":
            check(self.granted <= frame["aux"] <= 1 << 62, 8)
            self.granted = frame["aux"]

    def open(self, frame, payload):
        stream = frame["stream"]
        check(stream == self.last + 2 and stream < 1 << 31, 5)
        self.last = stream
        try:
            said = head(frame, payload, "request")
        except Unsupported:
            return
        check(len(self.streams) < 100, 10)
        announced = frame["flags"] & 1
        self.streams[stream] = {
            "announced": announced,
            "credit": 0 if announced else 131072,
            "length": said.get("length"),
            "at": 0,
            "rest": 0,
            "granted": 0,
            "ended": False,
        }

    def data(self, frame, payload, side):
        check(not side["ended"] and side["announced"] == frame["flags"] & 1, 6)
        cost = len(payload) if side["announced"] and payload else 24 + len(payload)
        check(cost <= side["credit"], 7)
        side["credit"] -= cost
        if not side["announced"]:
            check(cost <= self.left, 7)
            self.left -= cost
        whole = len(payload) + frame["code"]
        is_split = frame["code"] or side["rest"]
        check(frame["aux"] == side["at"] and side["rest"] in (0, whole), 9)
        check(not is_split or (side["announced"] and payload), 9)
        check(side["length"] is None or side["at"] + whole <= side["length"], 9)
        side["at"], side["rest"] = side["at"] + len(payload), frame["code"]

    def credit(self, frame, _, side):
        check(side["granted"] <= frame["aux"] <= 1 << 62, 8)
        side["granted"] = frame["aux"]

    def reset(self, frame, _, __):
        if not frame["flags"] & 1:
            del self.streams[frame["stream"]]

    def end(self, frame, _, side):
        check(not side["ended"], 6)
        is_whole = side["rest"] == 0 and side["length"] in (None, side["at"])
        check(is_whole or frame["code"] != 0, 9)
        side["ended"] = True


def unhex(text):
    """Bytes of hex in which `78*3` stands for 787878."""
    parts = (part.partition("*") for part in text.split())
    return b"".join(bytes.fromhex(byte) * int(count or 1) for byte, _, count in parts)


def code_of(sent):
    """The code that a conversation is dismissed with; 0: it is not."""
    receiver = Receiver()
    try:
        for data in sent:
            # A header alone is enough to be dismissed for.
            read_header(unhex(data)[:24])
            for frame, payload in split(unhex(data)):
                receiver.receive(frame, payload)
    except Dismissed as dismissed:
        return dismissed.code
    return 0


def main():
    with open(sys.argv[1], encoding="utf-8") as file:
        vectors = json.load(file)
    wrong = 0
    for vector in vectors["frames"]:
        expected = vector["meaning"]
        frames = list(split(unhex(vector["hex"])))
        said = [meaning(*frame, expected.get("direction")) for frame in frames]
        if said != [expected]:
            print(f"{vector['name']}: read {said}, expected {expected}")
            wrong += 1
    conversations = vectors["dismissed"] + vectors["accepted"]
    for vector in conversations:
        code = code_of(vector["sent"])
        if code != vector.get("code", 0):
            print(f"{vector['name']}: dismissed with {code}, expected {vector.get('code', 0)}")
            wrong += 1
    print(f"{len(vectors['frames'])} frames, {len(conversations)} conversations, {wrong} wrong")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
