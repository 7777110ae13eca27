//! HPACK: a field block reads alike in any fragments, keeps tables in step with a sink that is full, and is written so
//! that it reads alike again.
//!
//! The first byte is the room of the sink that is full at times. Each further fragment has a byte before it: its length
//! in the low bits, and the highest bit where the block ends with it.

#[path = "../../../crates/steppe-h2/tests/hpack/sink.rs"]
mod sink;

use steppe_h2::hpack::{DecodeError, Decoder, Encoder, FieldLine, Indexing, Out};

use sink::{Sink, entries};

/// Size limit of all dynamic tables: small, so that entries are evicted.
const TABLE_BYTES_MAX: u32 = 4096;

/// Checks one input; panics where a property fails.
pub fn run(input: &[u8]) {
    let Some((&room, mut input)) = input.split_first() else {
        return;
    };
    let mut ends = Ends::new();
    while !input.is_empty() {
        let fragments = next_block(&mut input);
        if ends.check_block(&fragments, usize::from(room)).is_err() {
            return;
        }
    }
}

/// The fragments of the next block.
fn next_block<'a>(input: &mut &'a [u8]) -> Vec<&'a [u8]> {
    let mut fragments = Vec::new();
    while let Some((&control, rest)) = input.split_first() {
        let len = usize::from(control & 0x7f).min(rest.len());
        let (fragment, rest) = rest.split_at(len);
        fragments.push(fragment);
        *input = rest;
        if control & 0x80 != 0 {
            break;
        }
    }
    fragments
}

struct Ends {
    whole: Decoder,
    in_fragments: Decoder,
    /// The decoder of the sink that is full at times. `None`: it is out of step.
    full: Option<Decoder>,
    encoder: Encoder,
    again: Decoder,
}

impl Ends {
    fn new() -> Self {
        let decoder = || Decoder::new(TABLE_BYTES_MAX);
        Self {
            whole: decoder(),
            in_fragments: decoder(),
            full: Some(decoder()),
            encoder: Encoder::new(TABLE_BYTES_MAX),
            again: decoder(),
        }
    }

    fn check_block(&mut self, fragments: &[&[u8]], room: usize) -> Result<(), DecodeError> {
        let block = fragments.concat();
        let mut sink = Sink::new();
        let read = decode(&mut self.whole, &[&block], &mut sink);
        let mut pieces = Sink::limited(room % 5 + 1, usize::MAX);
        assert_eq!(decode(&mut self.in_fragments, fragments, &mut pieces), read);
        assert_eq!(pieces.lines, sink.lines);
        let table = entries(self.whole.table());
        assert_eq!(entries(self.in_fragments.table()), table);
        assert!(self.whole.memory_bytes() <= Decoder::memory_bytes_max(TABLE_BYTES_MAX));
        if let Some(full) = &mut self.full {
            let mut limited = Sink::limited(7, room);
            match decode(full, fragments, &mut limited) {
                Err(DecodeError::Lost) => self.full = None,
                other => {
                    assert_eq!(other, read);
                    assert_eq!(entries(full.table()), table);
                    assert_eq!(limited.lines.len() + limited.lost.len(), sink.lines.len());
                }
            }
        }
        self.check_encoder(&sink);
        read
    }

    /// Field lines are sent on, and come again.
    fn check_encoder(&mut self, sink: &Sink) {
        let bytes = sink
            .lines
            .iter()
            .map(|((name, value), _)| Encoder::field_bytes_max(name.len(), value.len()));
        let mut buffer = vec![0; Encoder::BEGIN_BYTES_MAX + bytes.sum::<usize>()];
        let mut out = Out::new(&mut buffer);
        self.encoder.begin(&mut out).expect("room");
        for ((name, value), indexing) in &sink.lines {
            let line = FieldLine {
                name,
                value,
                indexing: *indexing,
            };
            self.encoder.field(&line, &mut out).expect("room");
        }
        let mut again = Sink::new();
        decode(&mut self.again, &[out.written()], &mut again).expect("it is valid");
        assert_eq!(again.lines.len(), sink.lines.len());
        for (sent, came) in sink.lines.iter().zip(&again.lines) {
            let ((name, value), indexing) = sent;
            assert_eq!(came.0, (name.to_ascii_lowercase(), value.clone()));
            assert!(*indexing != Indexing::Never || came.1 == Indexing::Never);
        }
        assert_eq!(entries(self.encoder.table()), entries(self.again.table()));
        assert!(self.encoder.memory_bytes() <= Encoder::memory_bytes_max(TABLE_BYTES_MAX));
    }
}

fn decode(decoder: &mut Decoder, fragments: &[&[u8]], sink: &mut Sink) -> Result<(), DecodeError> {
    for fragment in fragments {
        decoder.decode(fragment, sink)?;
    }
    decoder.end()
}
