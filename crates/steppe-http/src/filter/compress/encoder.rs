//! Encoders of gzip, Zstandard and Brotli behind one interface.
//!
//! Invariant: an encoder takes no more memory than [`Shape::state_bytes`] says, whatever it is fed with: tests
//! measure it. Spec: RFC 1952, RFC 8878 and RFC 9659 (windows of at most 8 MiB), RFC 7932.
//!
//! Padding is written here too: bytes that every decoder skips, behind a flush, where the output of each
//! format ends at a byte.

use brotli::enc::encode::{
    BrotliEncoderDestroyInstance, BrotliEncoderOperation, BrotliEncoderParameter,
    BrotliEncoderStateStruct,
};
use brotli::enc::{BrotliAlloc, StandardAlloc};
use flate2::{Compress, Compression, FlushCompress, Status};
use libdeflater::{CompressionLvl, Compressor};
use zstd_safe::zstd_sys::ZSTD_EndDirective;
use zstd_safe::{CCtx, CParameter, InBuffer, OutBuffer, ResetDirective};

use crate::config::Coding;
use crate::limits::{
    BROTLI_STATE_BYTES, BROTLI_STATE_BYTES_SHORT, GZIP_STATE_BYTES, SHORT_CONTENT_BYTES_MAX,
    WHOLE_STATE_BYTES, WHOLE_STATE_BYTES_FASTEST, ZSTD_STATE_BYTES, ZSTD_STATE_BYTES_SHORT,
};

/// The parameters of an encoder.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Shape {
    pub(super) coding: Coding,
    /// The content has [`SHORT_CONTENT_BYTES_MAX`] bytes at most, so windows and tables are small.
    pub(super) is_short: bool,
    pub(super) level: u8,
}

/// An encoder in the middle of some content.
pub(super) enum ContentEncoder {
    Gzip(Compress),
    Zstd(CCtx<'static>),
    Br(Box<Brotli>),
}

/// An encoder of gzip that takes content all at once, and is ready for other content then.
pub(super) struct WholeEncoder(Compressor);

/// A Brotli encoder, which can't be used again.
pub(super) struct Brotli<A: BrotliAlloc = StandardAlloc>(BrotliEncoderStateStruct<A>);

/// The operation of one call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Operation {
    /// More will follow.
    Process,
    /// Makes all input so far decodable.
    Flush,
    /// Ends the content.
    Finish,
}

/// The progress of one call.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Encoded {
    /// Bytes of the input that were taken.
    pub(super) read: usize,
    /// Bytes of the room that were filled.
    pub(super) written: usize,
    /// The operation is complete; else it goes on with more room.
    pub(super) is_done: bool,
}

/// The encoder's library failed, which it does for want of memory alone.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Broken;

impl Shape {
    /// For content of `length` bytes, as far as that is known.
    pub(super) fn of(coding: Coding, level: u8, length: Option<u64>) -> Self {
        let is_short = length.is_some_and(|length| length <= SHORT_CONTENT_BYTES_MAX);
        // Its memory is much the same for short content, so one kind of state serves both.
        let is_short = is_short && coding != Coding::Gzip;
        Self {
            coding,
            is_short,
            level,
        }
    }

    /// The most memory of an encoder of this shape.
    pub(super) fn state_bytes(self) -> usize {
        match (self.coding, self.is_short) {
            (Coding::Gzip, _) => GZIP_STATE_BYTES,
            (Coding::Zstd, false) => ZSTD_STATE_BYTES,
            (Coding::Zstd, true) => ZSTD_STATE_BYTES_SHORT,
            (Coding::Br, is_short) => {
                let by_level = match is_short {
                    true => BROTLI_STATE_BYTES_SHORT,
                    false => BROTLI_STATE_BYTES,
                };
                let index = usize::from(self.level.saturating_sub(1));
                by_level[index.min(by_level.len() - 1)]
            }
        }
    }

    /// True when an encoder can be used again for other content.
    pub(super) fn is_reusable(self) -> bool {
        self.coding != Coding::Br
    }
}

impl ContentEncoder {
    pub(super) fn new(shape: Shape) -> Result<Self, Broken> {
        Ok(match shape.coding {
            Coding::Gzip => {
                const WINDOW_BITS: u8 = 15;
                let level = Compression::new(shape.level.into());
                Self::Gzip(Compress::new_gzip(level, WINDOW_BITS))
            }
            Coding::Zstd => Self::Zstd(zstd(shape).map_err(|_| Broken)?),
            Coding::Br => Self::Br(Box::new(Brotli::with(shape, StandardAlloc::default()))),
        })
    }

    /// Makes it ready for other content; see [`Shape::is_reusable`].
    pub(super) fn reset(&mut self) -> Result<(), Broken> {
        match self {
            Self::Gzip(gzip) => gzip.reset(),
            Self::Zstd(zstd) => {
                zstd.reset(ResetDirective::SessionOnly)
                    .map_err(|_| Broken)?;
            }
            Self::Br(_) => return Err(Broken),
        }
        Ok(())
    }

    /// Takes some of `input`, and fills some of `room`.
    pub(super) fn encode(
        &mut self,
        input: &[u8],
        room: &mut [u8],
        operation: Operation,
    ) -> Result<Encoded, Broken> {
        match self {
            Self::Gzip(gzip) => encode_gzip(gzip, input, room, operation),
            Self::Zstd(zstd) => encode_zstd(zstd, input, room, operation),
            Self::Br(br) => br.encode(input, room, operation),
        }
    }
}

impl WholeEncoder {
    /// One of `level`, from 1 to 9.
    pub(super) fn new(level: u8) -> Self {
        let level = CompressionLvl::new(level.into()).expect("it has those that gzip has");
        Self(Compressor::new(level))
    }

    /// The most memory of an encoder of `level`.
    pub(super) fn state_bytes(level: u8) -> usize {
        match level {
            1 => WHOLE_STATE_BYTES_FASTEST,
            _ => WHOLE_STATE_BYTES,
        }
    }

    /// The longest result for content of so many bytes.
    pub(super) fn bytes_max(&mut self, bytes: usize) -> usize {
        self.0.gzip_compress_bound(bytes)
    }

    /// Fills some of `room`; says how much.
    ///
    /// # Panics
    /// Where `room` is shorter than [`WholeEncoder::bytes_max`].
    pub(super) fn encode(&mut self, content: &[u8], room: &mut [u8]) -> usize {
        let written = self.0.gzip_compress(content, room);
        written.expect("it becomes no longer than that")
    }
}

fn encode_gzip(
    gzip: &mut Compress,
    input: &[u8],
    room: &mut [u8],
    operation: Operation,
) -> Result<Encoded, Broken> {
    let flush = match operation {
        Operation::Process => FlushCompress::None,
        Operation::Flush => FlushCompress::Sync,
        Operation::Finish => FlushCompress::Finish,
    };
    let (read, written) = (gzip.total_in(), gzip.total_out());
    let status = gzip.compress(input, room, flush).map_err(|_| Broken)?;
    let (read, written) = (
        count(gzip.total_in() - read),
        count(gzip.total_out() - written),
    );
    Ok(Encoded {
        read,
        written,
        is_done: match operation {
            Operation::Process => read == input.len(),
            // Room that is left tells that there was no more to come.
            Operation::Flush => read == input.len() && written < room.len(),
            Operation::Finish => status == Status::StreamEnd,
        },
    })
}

fn zstd(shape: Shape) -> Result<CCtx<'static>, usize> {
    // Small windows and tables: the state of the library's own choice takes up to 11 MiB.
    let (window, tables) = if shape.is_short { (15, 15) } else { (17, 15) };
    let mut zstd = CCtx::try_create().ok_or(0_usize)?;
    for parameter in [
        CParameter::CompressionLevel(shape.level.into()),
        CParameter::WindowLog(window),
        CParameter::HashLog(tables),
        CParameter::ChainLog(tables),
        // The size is not in the frame: whoever reads it can't tell where the content ends otherwise
        // either, and with padding it would say too much.
        CParameter::ContentSizeFlag(false),
    ] {
        zstd.set_parameter(parameter)?;
    }
    Ok(zstd)
}

fn encode_zstd(
    zstd: &mut CCtx<'static>,
    input: &[u8],
    room: &mut [u8],
    operation: Operation,
) -> Result<Encoded, Broken> {
    let directive = match operation {
        Operation::Process => ZSTD_EndDirective::ZSTD_e_continue,
        Operation::Flush => ZSTD_EndDirective::ZSTD_e_flush,
        Operation::Finish => ZSTD_EndDirective::ZSTD_e_end,
    };
    let mut input_left = InBuffer::around(input);
    let mut room_left = OutBuffer::around(room);
    let left = zstd.compress_stream2(&mut room_left, &mut input_left, directive);
    let left = left.map_err(|_| Broken)?;
    let read = input_left.pos();
    Ok(Encoded {
        read,
        written: room_left.pos(),
        is_done: match operation {
            Operation::Process => read == input.len(),
            Operation::Flush | Operation::Finish => left == 0,
        },
    })
}

impl<A: BrotliAlloc> Brotli<A> {
    fn with(shape: Shape, allocator: A) -> Self {
        // With a window of 64 KiB or less, levels from 5 on take another table, of 32 MiB.
        let is_small = shape.is_short && shape.level < 5;
        let window = if is_small { 15 } else { 17 };
        let mut state = BrotliEncoderStateStruct::new(allocator);
        for (parameter, value) in [
            (
                BrotliEncoderParameter::BROTLI_PARAM_QUALITY,
                shape.level.into(),
            ),
            (BrotliEncoderParameter::BROTLI_PARAM_LGWIN, window),
        ] {
            state.set_parameter(parameter, value);
        }
        Self(state)
    }

    fn encode(
        &mut self,
        input: &[u8],
        room: &mut [u8],
        operation: Operation,
    ) -> Result<Encoded, Broken> {
        let brotli = match operation {
            Operation::Process => BrotliEncoderOperation::BROTLI_OPERATION_PROCESS,
            Operation::Flush => BrotliEncoderOperation::BROTLI_OPERATION_FLUSH,
            Operation::Finish => BrotliEncoderOperation::BROTLI_OPERATION_FINISH,
        };
        let (mut input_left, mut room_left) = (input.len(), room.len());
        let (mut read, mut written) = (0, 0);
        let is_good = self.0.compress_stream(
            brotli,
            &mut input_left,
            input,
            &mut read,
            &mut room_left,
            room,
            &mut written,
            &mut None,
            &mut |_, _, _, _| {},
        );
        if !is_good {
            return Err(Broken);
        }
        Ok(Encoded {
            read,
            written,
            is_done: match operation {
                Operation::Process => read == input.len(),
                Operation::Flush => read == input.len() && !self.0.has_more_output(),
                Operation::Finish => self.0.is_finished(),
            },
        })
    }
}

impl<A: BrotliAlloc> Drop for Brotli<A> {
    fn drop(&mut self) {
        BrotliEncoderDestroyInstance(&mut self.0);
    }
}

impl std::fmt::Debug for ContentEncoder {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Gzip(_) => "Gzip",
            Self::Zstd(_) => "Zstd",
            Self::Br(_) => "Br",
        })
    }
}

impl std::fmt::Debug for WholeEncoder {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("WholeEncoder")
    }
}

/// A count of bytes of one call, which is never more than a slice has.
fn count(bytes: u64) -> usize {
    usize::try_from(bytes).expect("a slice's length")
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use brotli::enc::{Allocator, SliceWrapper};

    use super::*;

    /// Text that grows tables, and bytes that nothing makes shorter.
    fn contents(bytes: usize) -> [Vec<u8>; 2] {
        let mut state = 0x1234_5678_u64;
        let mut next = || {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            state
        };
        let noise = (0..bytes).map(|_| next().to_le_bytes()[0]).collect();
        let text = (0..bytes)
            .map(|at| b"abcdefgh \n"[(at * at / 7) % 10])
            .collect();
        [noise, text]
    }

    fn feed(encoder: &mut ContentEncoder, content: &[u8]) {
        let mut room = vec![0; 16 << 10];
        let mut left = content;
        loop {
            let operation = match left.is_empty() {
                true => Operation::Finish,
                false => Operation::Process,
            };
            let encoded = encoder.encode(left, &mut room, operation).expect("memory");
            left = &left[encoded.read..];
            if encoded.is_done && operation == Operation::Finish {
                return;
            }
        }
    }

    fn shapes() -> impl Iterator<Item = (Shape, usize)> {
        const LONG: usize = 1 << 20;
        let lengths = [None, Some(crate::limits::SHORT_CONTENT_BYTES_MAX)];
        Coding::ALL.into_iter().flat_map(move |coding| {
            let levels = if coding == Coding::Br { 1..=6 } else { 1..=9 };
            levels.flat_map(move |level| {
                lengths.map(|length| {
                    let bytes =
                        length.map_or(LONG, |length| usize::try_from(length).expect("short"));
                    (Shape::of(coding, level, length), bytes)
                })
            })
        })
    }

    #[test]
    fn whole_gzip_is_read_by_another_decoder_and_has_room() {
        use std::io::Read;

        use crate::limits::WHOLE_CONTENT_BYTES_MAX;

        for level in 1..=9 {
            let mut encoder = WholeEncoder::new(level);
            for bytes in [0, 1, 60, 5000, WHOLE_CONTENT_BYTES_MAX] {
                for content in contents(bytes) {
                    let mut room = vec![0; encoder.bytes_max(bytes)];
                    let written = encoder.encode(&content, &mut room);
                    let mut read = Vec::new();
                    let mut decoder = flate2::bufread::GzDecoder::new(&room[..written]);
                    decoder.read_to_end(&mut read).expect("it is gzip");
                    assert!(read == content, "{bytes} bytes at level {level}");
                    assert!(decoder.into_inner().is_empty(), "nothing follows");
                }
            }
        }
    }

    #[test]
    fn zstandard_takes_no_more_than_it_is_charged() {
        for (shape, bytes) in shapes().filter(|(shape, _)| shape.coding == Coding::Zstd) {
            let mut encoder = ContentEncoder::new(shape).expect("memory");
            for content in contents(bytes) {
                feed(&mut encoder, &content);
                encoder.reset().expect("it is used again");
            }
            let ContentEncoder::Zstd(zstd) = &encoder else {
                unreachable!("that is what was asked for");
            };
            let taken = zstd.sizeof();
            assert!(taken <= shape.state_bytes(), "{shape:?} takes {taken}");
        }
    }

    /// Counts what an encoder of Brotli holds. Its library frees what it took by the same allocator.
    #[derive(Default)]
    struct Counting(StandardAlloc);

    static HELD: AtomicUsize = AtomicUsize::new(0);
    static MOST: AtomicUsize = AtomicUsize::new(0);

    impl<T: Clone + Default> Allocator<T> for Counting {
        type AllocatedMemory = <StandardAlloc as Allocator<T>>::AllocatedMemory;

        fn alloc_cell(&mut self, count: usize) -> Self::AllocatedMemory {
            let bytes = count * size_of::<T>();
            let held = HELD.fetch_add(bytes, Ordering::Relaxed) + bytes;
            MOST.fetch_max(held, Ordering::Relaxed);
            self.0.alloc_cell(count)
        }

        fn free_cell(&mut self, cell: Self::AllocatedMemory) {
            let bytes = std::mem::size_of_val(SliceWrapper::<T>::slice(&cell));
            HELD.fetch_sub(bytes, Ordering::Relaxed);
            self.0.free_cell(cell);
        }
    }

    impl BrotliAlloc for Counting {}

    #[test]
    fn brotli_takes_no_more_than_it_is_charged() {
        for (shape, bytes) in shapes().filter(|(shape, _)| shape.coding == Coding::Br) {
            for content in contents(bytes) {
                HELD.store(0, Ordering::Relaxed);
                MOST.store(0, Ordering::Relaxed);
                let mut brotli = Brotli::with(shape, Counting::default());
                let mut room = vec![0; 16 << 10];
                let mut left = &content[..];
                loop {
                    let operation = match left.is_empty() {
                        true => Operation::Finish,
                        false => Operation::Process,
                    };
                    let encoded = brotli.encode(left, &mut room, operation).expect("memory");
                    left = &left[encoded.read..];
                    if encoded.is_done && operation == Operation::Finish {
                        break;
                    }
                }
                let most = MOST.load(Ordering::Relaxed);
                assert!(most > 64 << 10, "it is counted");
                assert!(most <= shape.state_bytes(), "{shape:?} takes {most}");
            }
        }
    }
}
