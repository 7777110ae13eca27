//! Servers of HTTP/2 that send more content than windows allow: clients are answered at once.
//!
//! Spec: RFC 9113 §5.2, §6.9.1.

use std::collections::BTreeMap;

use steppe_testkit::{
    FieldSection, H2Frame, H2Peer, H2Server, NodeConfig, Peer, RawOrigin, Steppe,
};

/// RFC 9113 §6.9.2: the initial size of every window, in bytes.
const FIRST_WINDOW: i64 = 65_535;

/// RFC 9113 §6.5.2: the largest payload of a frame by default, in bytes.
const FRAME_BYTES: i64 = 16 << 10;

/// The paths of streams that stay open beside the one that overflows.
const OTHERS: [&str; 2] = ["/1", "/2"];

/// The request of the stream that overflows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Asked {
    Get,
    /// A POST with half of its content.
    HalfAPost,
}

/// The window that is overflowed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Of {
    Stream,
    Connection,
}

/// The end of a response.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum End {
    /// A whole response with this status.
    Status(u16),
    /// Cut after a head of 200 was forwarded.
    Cut,
    Whole,
}

struct Row {
    name: &'static str,
    asked: Asked,
    /// Frames that the node has read before the rest is sent.
    before: fn(u32) -> Vec<H2Frame>,
    /// Frames in one piece with the content that overflows.
    with: fn(u32) -> Vec<H2Frame>,
    of: Of,
    /// The ends of the response; two if the head and the content come in one piece, since either may be read first.
    ends: &'static [End],
    others: End,
}

/// No head of the response, and the window of the stream.
const ROW: Row = Row {
    name: "nothing before it",
    asked: Asked::Get,
    before: |_| vec![],
    with: |_| vec![],
    of: Of::Stream,
    ends: &[End::Status(502)],
    others: End::Whole,
};

const ROWS: &[Row] = &[
    ROW,
    Row {
        name: "an interim response before it",
        before: interim,
        ..ROW
    },
    Row {
        name: "the head in one piece with it",
        with: |s| vec![H2Frame::ok(s)],
        ends: &[End::Status(502), End::Cut],
        ..ROW
    },
    Row {
        name: "an interim response, the head and it in one piece",
        with: |s| [interim(s), vec![H2Frame::ok(s)]].concat(),
        ends: &[End::Status(502), End::Cut],
        ..ROW
    },
    Row {
        name: "the head before it",
        before: |s| vec![H2Frame::ok(s)],
        ends: &[End::Cut],
        ..ROW
    },
    Row {
        name: "the head and some content before it",
        before: |s| vec![H2Frame::ok(s), H2Frame::data(s, "some")],
        ends: &[End::Cut],
        ..ROW
    },
    Row {
        name: "a head of 304 before it",
        before: |s| {
            let fields = FieldSection::default().field(":status", "304");
            vec![H2Frame::opening(s, &fields)]
        },
        ..ROW
    },
    Row {
        name: "a head that announces less before it",
        before: |s| {
            let fields = FieldSection::default().field(":status", "200");
            vec![H2Frame::opening(s, &fields.field("content-length", "4"))]
        },
        ends: &[End::Cut],
        ..ROW
    },
    Row {
        name: "half a POST, and the head in one piece with it",
        asked: Asked::HalfAPost,
        with: |s| vec![H2Frame::ok(s)],
        ends: &[End::Status(502), End::Cut],
        ..ROW
    },
    Row {
        name: "half a POST, and nothing before it",
        asked: Asked::HalfAPost,
        ..ROW
    },
    Row {
        name: "the connection, and nothing before it",
        of: Of::Connection,
        others: End::Cut,
        ..ROW
    },
    Row {
        name: "the connection, and the head in one piece with it",
        with: |s| vec![H2Frame::ok(s)],
        of: Of::Connection,
        others: End::Cut,
        ends: &[End::Status(502), End::Cut],
        ..ROW
    },
    Row {
        name: "the connection, and the head before it",
        before: |s| vec![H2Frame::ok(s)],
        of: Of::Connection,
        others: End::Cut,
        ends: &[End::Cut],
        ..ROW
    },
    Row {
        name: "the connection, and half a POST",
        asked: Asked::HalfAPost,
        of: Of::Connection,
        others: End::Cut,
        ..ROW
    },
];

fn interim(stream: u32) -> Vec<H2Frame> {
    let fields = FieldSection::default().field(":status", "103");
    vec![H2Frame::opening(stream, &fields)]
}

/// A stream that overflows a window, and the windows that the node has granted, less the bytes that were sent.
struct Overflowing {
    stream: u32,
    of: Of,
    windows: BTreeMap<u32, i64>,
}

impl Overflowing {
    fn left(&mut self, stream: u32) -> &mut i64 {
        self.windows.entry(stream).or_insert(FIRST_WINDOW)
    }

    /// Reads a frame; `None` once the stream or connection whose window overflows has ended.
    fn read(&mut self, server: &mut H2Server<'_>) -> Option<H2Frame> {
        let frame = server.frame()?;
        let is_reset = frame.kind == H2Frame::RST_STREAM && frame.stream == self.stream;
        if frame.kind == H2Frame::GOAWAY || (is_reset && self.of == Of::Stream) {
            return None;
        }
        if frame.kind == H2Frame::WINDOW_UPDATE {
            let bytes = frame.payload.first_chunk().expect("it has four");
            *self.left(frame.stream) += i64::from(u32::from_be_bytes(*bytes));
        }
        Some(frame)
    }

    /// Sends frames, and reads until the node has acknowledged them; `None` once the stream or connection whose window
    /// overflows has ended.
    fn round(&mut self, server: &mut H2Server<'_>, mut frames: Vec<H2Frame>) -> Option<()> {
        for frame in frames.iter().filter(|frame| frame.kind == H2Frame::DATA) {
            let bytes = i64::try_from(frame.payload.len()).expect("small");
            *self.left(frame.stream) -= bytes;
            *self.left(0) -= bytes;
        }
        frames.push(H2Frame::new(H2Frame::PING, 0, 0, [0; 8]));
        server.send(&frames);
        loop {
            let frame = self.read(server)?;
            if frame.kind == H2Frame::PING && frame.has(H2Frame::ACK) {
                return Some(());
            }
        }
    }

    /// Content that exceeds the window; that of a stream stays within the connection's.
    fn too_much(&mut self) -> Vec<H2Frame> {
        let mut bytes = match self.of {
            Of::Stream => (*self.left(self.stream) + FRAME_BYTES).min(*self.left(0)),
            Of::Connection => *self.left(0) + FRAME_BYTES,
        };
        let mut frames = Vec::new();
        while bytes > 0 {
            let part = usize::try_from(bytes.min(FRAME_BYTES)).expect("small");
            frames.push(H2Frame::data(self.stream, vec![b'x'; part]));
            bytes -= FRAME_BYTES;
        }
        frames
    }
}

/// A server that answers [`OTHERS`] in part, overflows a window by the stream that follows, and completes the others.
fn overflow(server: &mut H2Server<'_>, row: &Row) {
    const ROUNDS_MAX: usize = 1000;
    let mut overflowing = Overflowing {
        stream: 0,
        of: row.of,
        windows: BTreeMap::new(),
    };
    let others = OTHERS.map(|_| server.request().expect("they are asked for"));
    for stream in others {
        server.send(&[H2Frame::ok(stream), H2Frame::data(stream, "o")]);
    }
    // Waits until the connection's window has room for two streams, so that a stream's overflows first.
    while *overflowing.left(0) < 2 * FIRST_WINDOW {
        overflowing.read(server).expect("its window is opened");
    }
    while overflowing.stream == 0 {
        let frame = overflowing.read(server).expect("a third is asked for");
        if frame.kind == H2Frame::HEADERS {
            overflowing.stream = frame.stream;
        }
    }
    let stream = overflowing.stream;
    let mut is_open = overflowing.round(server, (row.before)(stream));
    let mut with = (row.with)(stream);
    for _ in 0..ROUNDS_MAX {
        if is_open.is_none() {
            break;
        }
        let frames = [with, overflowing.too_much()].concat();
        // The node may have forwarded some of it, and opened the window in time: then there was no overflow.
        is_open = overflowing.round(server, frames);
        with = Vec::new();
    }
    for stream in others {
        server.send(&[H2Frame::last_data(stream, "k")]);
    }
    server.drain();
}

/// A node that speaks both protocols, and whose `timeouts.first_byte` is ten minutes.
fn serve(row: &'static Row) -> (RawOrigin, Steppe) {
    let origin = RawOrigin::start(move |peer| {
        let Some(mut server) = H2Server::begin(peer, &[]) else {
            return;
        };
        match server.index() {
            0 => overflow(&mut server, row),
            _ => server.drain(),
        }
    });
    let config = NodeConfig::plain()
        .protocols(["h1", "h2c"])
        .upstream("origin", |u| {
            u.set("protocol", "h2c").set("timeouts.first_byte", "600s")
        });
    let node = Steppe::builder()
        .with("origin", origin.address())
        .start(&config);
    (origin, node)
}

/// The end that a client of HTTP/1.1 sees.
fn h1(node: &Steppe, asked: Asked) -> End {
    let mut peer = Peer::connect(node.gateway());
    peer.send(match asked {
        Asked::Get => "GET / HTTP/1.1\r\nHost: a\r\n\r\n",
        Asked::HalfAPost => "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 8\r\n\r\nhalf",
    });
    loop {
        match peer.head().expect("a response").status() {
            100..200 => {}
            // A last chunk would make an endless response complete.
            200 if peer.rest().ends_with(b"0\r\n\r\n") => return End::Whole,
            200 => return End::Cut,
            status => return End::Status(status),
        }
    }
}

/// The end that a client of HTTP/2 sees.
fn h2(node: &Steppe, asked: Asked) -> End {
    let mut peer = H2Peer::connect(node.gateway());
    let stream = match asked {
        Asked::Get => peer.request(&FieldSection::of("GET", "/")),
        Asked::HalfAPost => {
            let stream = peer.stream();
            let opening = H2Frame::opening(stream, &FieldSection::of("POST", "/"));
            peer.send(&[opening, H2Frame::data(stream, "half")]);
            stream
        }
    };
    let answer = peer.answer(stream);
    match (answer.status, answer.is_ended) {
        (Some(200), true) => End::Whole,
        // A reset overtakes a head that waits to be written.
        (Some(103 | 200) | None, false) => End::Cut,
        (status, _) => End::Status(status.unwrap_or(0)),
    }
}

/// The ends that clients saw, if they are not the expected ones.
fn wrong(row: &'static Row, see: fn(&Steppe, Asked) -> End) -> Option<String> {
    let (_origin, node) = serve(row);
    let mut client = H2Peer::connect(node.gateway());
    let streams = OTHERS.map(|path| client.request(&FieldSection::of("GET", path)));
    for stream in streams {
        while client.so_far(stream).content.is_empty() {
            client.frame().expect("it has begun");
        }
    }
    let end = see(&node, row.asked);
    let others = streams.map(|stream| match client.answer(stream) {
        answer if answer.is_ended && answer.text() == "ok" => End::Whole,
        _ => End::Cut,
    });
    let is_right = row.ends.contains(&end) && others == [row.others; 2];
    (!is_right).then(|| format!("{}: {end:?}, others {others:?}", row.name))
}

/// No response waits for `timeouts.first_byte`. Other streams lose their responses only if the connection ends.
#[test]
fn more_content_than_windows_allow() {
    let rows = ROWS.iter().flat_map(|row| [wrong(row, h1), wrong(row, h2)]);
    let wrong: Vec<_> = rows.flatten().collect();
    assert!(wrong.is_empty(), "{wrong:#?}");
}
