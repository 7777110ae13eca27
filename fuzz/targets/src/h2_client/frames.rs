//! Frames of a client, made of any bytes. Spec: RFC 9113 §4, RFC 7541 §6.2.

const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
const DATA: u8 = 0;
const HEADERS: u8 = 1;
const PRIORITY: u8 = 2;
const RST_STREAM: u8 = 3;
const SETTINGS: u8 = 4;
const PING: u8 = 6;
const GOAWAY: u8 = 7;
const WINDOW_UPDATE: u8 = 8;
const CONTINUATION: u8 = 9;
const END_STREAM: u8 = 1;
const END_HEADERS: u8 = 4;

/// Content of one frame at most.
const CONTENT_MAX: usize = 2048;
/// Frames of one input at most.
const FRAMES_MAX: usize = 300;

/// Fields that mean something to the gateway.
const FIELDS: [(&[u8], &[u8]); 20] = [
    (b":method", b"GET"),
    (b":method", b"POST"),
    (b":method", b"HEAD"),
    (b":method", b"CONNECT"),
    (b":path", b"/a?b"),
    (b":path", b"*"),
    (b":scheme", b"http"),
    (b":authority", b"localhost"),
    (b":protocol", b"websocket"),
    (b":status", b"200"),
    (b"host", b"other"),
    (b"content-length", b"5"),
    (b"te", b"trailers"),
    (b"cookie", b"a=b"),
    (b"expect", b"100-continue"),
    (b"priority", b"u=1, i"),
    (b"connection", b"close"),
    (b"content-type", b"application/grpc-web-text"),
    (b"grpc-timeout", b"1S"),
    (b"transfer-encoding", b"chunked"),
];

pub struct Frames<'a> {
    input: &'a [u8],
    out: Vec<u8>,
    /// The next stream to be opened.
    next: u32,
}

impl<'a> Frames<'a> {
    /// The frames that `input` spells.
    pub fn of(input: &'a [u8]) -> Vec<u8> {
        let mut frames = Self::begin(input);
        for _ in 0..FRAMES_MAX {
            let Some(what) = frames.byte() else { break };
            frames.add(what);
        }
        frames.out
    }

    /// A request without content.
    pub fn one_request() -> Vec<u8> {
        let mut frames = Self::begin(&[]);
        let block = block(&[0, 4, 6, 7]);
        frames.put(HEADERS, END_STREAM | END_HEADERS, 1, &block);
        frames.out
    }

    fn begin(input: &'a [u8]) -> Self {
        let mut frames = Self {
            input,
            out: PREFACE.to_vec(),
            next: 1,
        };
        frames.put(SETTINGS, 0, 0, &[]);
        frames
    }

    fn byte(&mut self) -> Option<u8> {
        let (first, rest) = self.input.split_first()?;
        self.input = rest;
        Some(*first)
    }

    fn number(&mut self) -> u32 {
        (0..4).fold(0, |sum, _| sum << 8 | u32::from(self.byte().unwrap_or(0)))
    }

    fn some(&mut self) -> &'a [u8] {
        let count = usize::from(self.byte().unwrap_or(0)).min(self.input.len());
        let (some, rest) = self.input.split_at(count);
        self.input = rest;
        some
    }

    /// One that is open, or the next, or the connection.
    fn stream(&mut self) -> u32 {
        match self.byte().unwrap_or(0) {
            0 => 0,
            255 => self.next,
            back => self.next.saturating_sub(2 * u32::from(back % 8) + 2),
        }
    }

    fn add(&mut self, what: u8) {
        let (what, flags) = (what % 16, what / 16);
        match what {
            // A request that is right, with or without content.
            0..=2 => {
                let method = if flags % 2 == 0 { 1 } else { 0 };
                let id = self.open();
                self.put(
                    HEADERS,
                    END_HEADERS | (flags % 2),
                    id,
                    &block(&[method, 4, 6, 7]),
                );
            }
            // Any fields.
            3 => {
                let fields = self.some();
                let id = self.open();
                self.put(HEADERS, END_HEADERS | (flags % 2), id, &block(fields));
            }
            // Trailers, or a head on a stream that has one.
            4 => {
                let fields = self.some();
                let id = self.stream();
                self.put(HEADERS, END_HEADERS | END_STREAM, id, &block(fields));
            }
            5..=7 => {
                let bytes = usize::from(self.byte().unwrap_or(0)) * 16;
                let id = self.stream();
                let content = [0; CONTENT_MAX];
                self.put(DATA, flags % 2, id, &content[..bytes.min(CONTENT_MAX)]);
            }
            8 => {
                let (id, code) = (self.stream(), self.number());
                self.put(RST_STREAM, 0, id, &code.to_be_bytes());
            }
            9 => {
                let (id, bytes) = (self.stream(), self.number());
                self.put(WINDOW_UPDATE, 0, id, &bytes.to_be_bytes());
            }
            10 => {
                let (name, value) = (self.byte().unwrap_or(0) % 10, self.number());
                let setting = [&[0, name], &value.to_be_bytes()[..]].concat();
                self.put(SETTINGS, 0, 0, &setting);
            }
            11 => self.put(PING, flags % 2, 0, &[7; 8]),
            12 => {
                let (id, on) = (self.stream(), self.number());
                self.put(PRIORITY, 0, id, &[&on.to_be_bytes()[..], &[1]].concat());
            }
            13 => self.put(GOAWAY, 0, 0, &[0; 8]),
            // A head in pieces, and what may not come between.
            14 => {
                let fields = self.some();
                let id = self.open();
                self.put(HEADERS, flags % 2, id, &block(fields));
                let more = self.some();
                self.put(CONTINUATION, flags & END_HEADERS, id, &block(more));
            }
            // Any frame.
            _ => {
                let (kind, payload) = (self.byte().unwrap_or(0) % 12, self.some());
                let id = self.stream();
                self.put(kind, flags, id, payload);
            }
        }
    }

    fn open(&mut self) -> u32 {
        self.next += 2;
        self.next - 2
    }

    #[expect(clippy::too_many_arguments, reason = "older than the limit")]
    fn put(&mut self, kind: u8, flags: u8, stream: u32, payload: &[u8]) {
        let length = u32::try_from(payload.len()).expect("it is small");
        self.out.extend_from_slice(&length.to_be_bytes()[1..]);
        self.out.extend_from_slice(&[kind, flags]);
        self.out.extend_from_slice(&stream.to_be_bytes());
        self.out.extend_from_slice(payload);
    }
}

/// Literals without indexing, of fields by their numbers; those above are bytes as they are.
fn block(fields: &[u8]) -> Vec<u8> {
    let mut block = Vec::new();
    for &field in fields {
        match FIELDS.get(usize::from(field)) {
            Some((name, value)) => {
                block.push(0);
                for text in [name, value] {
                    block.push(u8::try_from(text.len()).expect("it is short"));
                    block.extend_from_slice(text);
                }
            }
            None => block.push(field),
        }
    }
    block
}
