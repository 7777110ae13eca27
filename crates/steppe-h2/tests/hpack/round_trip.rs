//! A decoder reads what an encoder writes: in any fragments, with any changes of the table's size.

use proptest::collection::vec;
use proptest::prelude::*;
use steppe_h2::hpack::{DecodeError, Decoder, Encoder, FieldLine, Indexing, TABLE_BYTES_INITIAL};

use crate::sink::{Pair, Sink, entries};
use crate::support::encode;

/// Largest table of either side.
const TABLE_BYTES_MAX: u32 = 8192;

/// A field block, and the size that the peer allows the table before it.
#[derive(Debug, Clone)]
struct Block {
    table_bytes_max: Vec<u32>,
    lines: Vec<(Pair, Indexing)>,
}

impl Block {
    fn lines(&self) -> Vec<FieldLine<'_>> {
        let mut lines = Vec::new();
        for ((name, value), indexing) in &self.lines {
            lines.push(FieldLine {
                name,
                value,
                indexing: *indexing,
            });
        }
        lines
    }
}

const NAMES: [&str; 14] = [
    ":method",
    ":path",
    ":status",
    ":authority",
    "accept",
    "Cookie",
    "date",
    "X-Id",
    "x-id",
    "",
    "authorization",
    "etag",
    "X-A-Name-That-Is-Put-Into-Lower-Case-Before-It-Is-Looked-Up",
    "X-A-Name-That-Is-Longer-Than-Any-That-Anybody-Has-Registered-Until-Now",
];
const VALUES: [&str; 8] = [
    "",
    "/",
    "GET",
    "200",
    "a",
    "b",
    "c",
    "Mon, 21 Oct 2013 20:13:21 GMT",
];

/// Few names and values, so that they repeat; some of them long.
fn pair() -> impl Strategy<Value = Pair> {
    let name = prop_oneof![
        9 => prop::sample::select(&NAMES[..]).prop_map(|name| name.as_bytes().to_vec()),
        1 => vec(any::<u8>(), 0..80),
    ];
    let value = prop_oneof![
        6 => prop::sample::select(&VALUES[..]).prop_map(|value| value.as_bytes().to_vec()),
        2 => (0..20_u8, 1..200_usize).prop_map(|(byte, count)| vec![b'a' + byte; count]),
        1 => vec(any::<u8>(), 0..300),
        1 => (any::<u8>(), 1000..6000_usize).prop_map(|(byte, count)| vec![byte; count]),
    ];
    (name, value)
}

fn block() -> impl Strategy<Value = Block> {
    let sizes = prop::sample::select(&[0_u32, 31, 32, 64, 256, 1000, 4096, 8192, 100_000][..]);
    let indexing = prop_oneof![
        9 => Just(Indexing::Without),
        1 => Just(Indexing::Never),
    ];
    let block = (
        prop_oneof![3 => Just(Vec::new()), 1 => vec(sizes, 1..4)],
        vec((pair(), indexing), 0..12),
    );
    block.prop_map(|(table_bytes_max, lines)| Block {
        table_bytes_max,
        lines,
    })
}

fn lower_case(block: &Block) -> Vec<Pair> {
    let pairs = block.lines.iter().map(|(pair, _)| pair.clone());
    pairs
        .map(|(name, value)| (name.to_ascii_lowercase(), value))
        .collect()
}

/// Decodes a block in fragments that end where `cuts` say, each a share of what is left.
fn decode_in_fragments(
    decoder: &mut Decoder,
    mut block: &[u8],
    cuts: &[u8],
    sink: &mut Sink,
) -> Result<(), DecodeError> {
    for cut in cuts {
        let (fragment, rest) = block.split_at(block.len() * usize::from(*cut) / 256);
        decoder.decode(fragment, sink)?;
        block = rest;
    }
    decoder.decode(block, sink)?;
    decoder.end()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn what_is_written_is_read(
        blocks in vec(block(), 1..12),
        own_max in prop::sample::select(&[0, 100, 4096, TABLE_BYTES_MAX][..]),
        cuts in vec(any::<u8>(), 0..6),
        piece in 1..20_usize,
    ) {
        let mut encoder = Encoder::new(own_max);
        let mut decoder = Decoder::new(TABLE_BYTES_INITIAL);
        let mut in_fragments = Decoder::new(TABLE_BYTES_INITIAL);
        for block in blocks {
            for size in &block.table_bytes_max {
                encoder.set_table_bytes_max((*size).min(TABLE_BYTES_MAX));
                decoder.set_table_bytes_max((*size).min(TABLE_BYTES_MAX));
                in_fragments.set_table_bytes_max((*size).min(TABLE_BYTES_MAX));
            }
            let bytes = encode(&mut encoder, &block.lines());
            let mut whole = Sink::new();
            decode_in_fragments(&mut decoder, &bytes, &[], &mut whole).expect("valid");
            let mut pieces = Sink::limited(piece, usize::MAX);
            decode_in_fragments(&mut in_fragments, &bytes, &cuts, &mut pieces).expect("valid");
            prop_assert_eq!(&whole.lines, &pieces.lines);
            let pairs: Vec<Pair> = whole.lines.iter().map(|(pair, _)| pair.clone()).collect();
            prop_assert_eq!(pairs, lower_case(&block));
            for ((_, sent), (_, came)) in block.lines.iter().zip(&whole.lines) {
                prop_assert!(*sent != Indexing::Never || *came == Indexing::Never);
            }
            prop_assert_eq!(entries(encoder.table()), entries(decoder.table()));
            prop_assert_eq!(entries(encoder.table()), entries(in_fragments.table()));
            prop_assert_eq!(encoder.table().size_max(), decoder.table().size_max());
            let memory_max = Encoder::memory_bytes_max(own_max);
            prop_assert!(encoder.memory_bytes() <= memory_max, "{} bytes", encoder.memory_bytes());
        }
    }

    /// A sink that is full at times: its decoder's table stays in step, or it says that it isn't.
    #[test]
    fn a_full_sink_leaves_the_table_in_step(
        blocks in vec((block(), prop_oneof![Just(usize::MAX), 0..2000_usize]), 1..12),
        cuts in vec(any::<u8>(), 0..6),
        piece in 1..20_usize,
    ) {
        let mut encoder = Encoder::new(TABLE_BYTES_MAX);
        let (mut decoder, mut full) = (Decoder::new(4096), Decoder::new(4096));
        for (block, left) in blocks {
            let bytes = encode(&mut encoder, &block.lines());
            let mut whole = Sink::new();
            decode_in_fragments(&mut decoder, &bytes, &[], &mut whole).expect("valid");
            let mut sink = Sink::limited(piece, left);
            match decode_in_fragments(&mut full, &bytes, &cuts, &mut sink) {
                Ok(()) => {}
                Err(error) => {
                    prop_assert_eq!(error, DecodeError::Lost);
                    prop_assert!(!sink.lost.is_empty());
                    break;
                }
            }
            prop_assert_eq!(entries(decoder.table()), entries(full.table()));
            prop_assert_eq!(sink.lines.len() + sink.lost.len(), whole.lines.len());
            let mut kept = sink.lines.iter().peekable();
            let mut lost = sink.lost.iter();
            for line in &whole.lines {
                let ((name, value), _) = line;
                if kept.next_if(|kept| *kept == line).is_none() {
                    prop_assert_eq!(lost.next(), Some(&(name.len() + value.len())));
                }
            }
        }
    }
}
