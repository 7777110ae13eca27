"""HPACK of others, for the tests in foreign.rs: a command a line, an answer a line.

Usage: foreign.py nghttp2|hpack

Strings are hex. A field is `name=value`, with `!` behind it where it is never indexed.

    decoder SIZE     begins with a table of SIZE bytes
    decode BLOCK     answers `fields` and the fields, or `refused`
    encoder SIZE     begins with a table of SIZE bytes
    resize SIZE      the peer of the encoder allows that from now on
    encode FIELD...  answers `block` and the block
"""

import ctypes
import sys


class Nghttp2:
    """The library, by the functions that nghttp2.h declares for HPACK alone."""

    class Field(ctypes.Structure):
        _fields_ = [
            ("name", ctypes.c_void_p),
            ("value", ctypes.c_void_p),
            ("name_len", ctypes.c_size_t),
            ("value_len", ctypes.c_size_t),
            ("flags", ctypes.c_uint8),
        ]

    FINAL, EMIT, NO_INDEX = 1, 2, 1

    def __init__(self):
        self.lib = ctypes.CDLL("libnghttp2.so.14")
        for name in ["inflate_hd2", "deflate_hd"]:
            getattr(self.lib, "nghttp2_hd_" + name).restype = ctypes.c_ssize_t

    def decoder(self, size):
        self.inflater = ctypes.c_void_p()
        assert self.lib.nghttp2_hd_inflate_new(ctypes.byref(self.inflater)) == 0
        assert self.lib.nghttp2_hd_inflate_change_table_size(self.inflater, ctypes.c_size_t(size)) == 0

    def decode(self, block):
        fields = []
        field, flags = self.Field(), ctypes.c_int()
        while True:
            buffer = ctypes.create_string_buffer(block, len(block) + 1)
            read = self.lib.nghttp2_hd_inflate_hd2(
                self.inflater, ctypes.byref(field), ctypes.byref(flags), buffer, ctypes.c_size_t(len(block)), 1
            )
            if read < 0:
                return None
            block = block[read:]
            if flags.value & self.EMIT:
                name = ctypes.string_at(field.name, field.name_len)
                value = ctypes.string_at(field.value, field.value_len)
                fields.append((name, value, bool(field.flags & self.NO_INDEX)))
            if flags.value & self.FINAL:
                self.lib.nghttp2_hd_inflate_end_headers(self.inflater)
                return fields

    def encoder(self, size):
        self.deflater = ctypes.c_void_p()
        assert self.lib.nghttp2_hd_deflate_new(ctypes.byref(self.deflater), ctypes.c_size_t(size)) == 0

    def resize(self, size):
        assert self.lib.nghttp2_hd_deflate_change_table_size(self.deflater, ctypes.c_size_t(size)) == 0

    def encode(self, fields):
        nva = (self.Field * len(fields))()
        for field, (name, value, never) in zip(nva, fields):
            field.name = ctypes.cast(ctypes.c_char_p(name), ctypes.c_void_p)
            field.value = ctypes.cast(ctypes.c_char_p(value), ctypes.c_void_p)
            field.name_len, field.value_len = len(name), len(value)
            field.flags = self.NO_INDEX if never else 0
        out = ctypes.create_string_buffer(1 << 20)
        size = self.lib.nghttp2_hd_deflate_hd(
            self.deflater, out, ctypes.c_size_t(len(out)), nva, ctypes.c_size_t(len(fields))
        )
        assert size >= 0, size
        return out.raw[:size]


class Hpack:
    """The package of PyPI, as Debian's python3-hpack has it."""

    def __init__(self):
        import hpack

        self.hpack = hpack

    def decoder(self, size):
        self.reader = self.hpack.Decoder(max_header_list_size=1 << 20)
        self.reader.max_allowed_table_size = size

    def decode(self, block):
        try:
            fields = self.reader.decode(block, raw=True)
        except self.hpack.HPACKError:
            return None
        never = self.hpack.NeverIndexedHeaderTuple
        return [(field[0], field[1], isinstance(field, never)) for field in fields]

    def encoder(self, size):
        self.writer = self.hpack.Encoder()
        if size != 4096:
            self.writer.header_table_size = size

    def resize(self, size):
        self.writer.header_table_size = size

    def encode(self, fields):
        return self.writer.encode(fields)


def field_of(text):
    name, value = text.rstrip("!").split("=")
    return bytes.fromhex(name), bytes.fromhex(value), text.endswith("!")


def answer(peer, line):
    command, *rest = line.split()
    if command == "decode":
        fields = peer.decode(bytes.fromhex("".join(rest)))
        if fields is None:
            return "refused"
        written = [f"{name.hex()}={value.hex()}{'!' if never else ''}" for name, value, never in fields]
        return " ".join(["fields", *written])
    if command == "encode":
        return "block " + peer.encode([field_of(text) for text in rest]).hex()
    getattr(peer, command)(int(rest[0]))
    return "done"


if __name__ == "__main__":
    try:
        peer = {"nghttp2": Nghttp2, "hpack": Hpack}[sys.argv[1]]()
    except (ImportError, OSError) as error:
        sys.exit(f"missing: {error}")
    for line in sys.stdin:
        print(answer(peer, line))
