//! Encoded content of requests, decoded as a whole: only where a filter must look into it.
//!
//! Invariant: no more comes out than there is room for, and what a decoder may take is reserved before it begins.
//! Spec: RFC 9110 §8.4.1; RFC 7932 §9.1 (the window of Brotli).

use brotli::enc::StandardAlloc;
use brotli::{BrotliDecompressStream, BrotliResult, BrotliState};
use flate2::{Decompress, FlushDecompress, Status};
use steppe_mem::{Buffer, Lease};

use super::room::{self, ContentRejection, EditFault};
use crate::config::Coding;
use crate::limits::{BROTLI_DECODER_BYTES, DECODER_BYTES};

/// Decodes `encoded` into at most `bytes_max` bytes.
pub(super) fn decode(
    coding: Coding,
    encoded: &[u8],
    bytes_max: usize,
    lease: &Lease,
) -> Result<Buffer, ContentRejection> {
    /// The factor by which content usually grows: room for that is tried first.
    const USUAL: usize = 8;
    let state = lease.try_reserve(state_bytes(coding, encoded));
    let _state = state.map_err(|_| ContentRejection::OverBudget)?;
    let usual = match coding {
        Coding::Gzip | Coding::Zstd => encoded.len().saturating_mul(USUAL),
        // Its decoder fills its window before it gives anything: a second try could cost as much again.
        Coding::Br => bytes_max,
    };
    room::written(lease, usual, bytes_max, |out| {
        // A buffer may have more room than it may have content.
        let room = out.spare().min(bytes_max);
        let bytes = decode_into(coding, encoded, &mut out.spare_mut()[..room])?;
        out.advance(bytes);
        Ok(())
    })
}

fn decode_into(coding: Coding, encoded: &[u8], room: &mut [u8]) -> Result<usize, EditFault> {
    match coding {
        Coding::Gzip => gunzip(encoded, room),
        Coding::Zstd => unzstd(encoded, room),
        Coding::Br => unbrotli(encoded, room),
    }
}

/// The memory of a decoder.
fn state_bytes(coding: Coding, encoded: &[u8]) -> usize {
    match coding {
        Coding::Gzip | Coding::Zstd => DECODER_BYTES,
        Coding::Br => BROTLI_DECODER_BYTES + (1 << brotli_window_bits(encoded)),
    }
}

/// RFC 7932 §9.1.
fn brotli_window_bits(encoded: &[u8]) -> u32 {
    let first = u32::from(encoded.first().copied().unwrap_or_default());
    match (first & 1, first >> 1 & 7, first >> 4 & 7) {
        (0, ..) => 16,
        (_, 0, 0) => 17,
        (_, 0, bits) => 8 + bits,
        (_, bits, _) => 17 + bits,
    }
}

fn gunzip(encoded: &[u8], room: &mut [u8]) -> Result<usize, EditFault> {
    const WINDOW_BITS: u8 = 15;
    let mut gzip = Decompress::new_gzip(WINDOW_BITS);
    let status = gzip.decompress(encoded, room, FlushDecompress::Finish);
    let written = usize::try_from(gzip.total_out()).expect("it is in the room");
    let is_read = gzip.total_in() == encoded.len() as u64;
    match status {
        Ok(Status::StreamEnd) if is_read => Ok(written),
        Ok(Status::Ok | Status::BufError) if written == room.len() => Err(EditFault::Full),
        _ => Err(EditFault::Invalid),
    }
}

fn unzstd(encoded: &[u8], room: &mut [u8]) -> Result<usize, EditFault> {
    let mut zstd = zstd_safe::DCtx::try_create().ok_or(EditFault::Invalid)?;
    zstd.decompress(room, encoded).map_err(|code| {
        let name = zstd_safe::get_error_name(code);
        match name.contains("too small") {
            true => EditFault::Full,
            false => EditFault::Invalid,
        }
    })
}

fn unbrotli(encoded: &[u8], room: &mut [u8]) -> Result<usize, EditFault> {
    let alloc = StandardAlloc::default;
    // Strict: no windows beyond those of RFC 7932, which a decoder fills before it gives anything.
    let mut state = BrotliState::new_strict(alloc(), alloc(), alloc());
    let (mut input_left, mut room_left) = (encoded.len(), room.len());
    let (mut read, mut written, mut total) = (0, 0, 0);
    let result = BrotliDecompressStream(
        &mut input_left,
        &mut read,
        encoded,
        &mut room_left,
        &mut written,
        room,
        &mut total,
        &mut state,
    );
    match result {
        BrotliResult::ResultSuccess if input_left == 0 => Ok(written),
        BrotliResult::NeedsMoreOutput => Err(EditFault::Full),
        _ => Err(EditFault::Invalid),
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use steppe_mem::Budget;

    use super::*;

    const BYTES_MAX: usize = 1 << 20;

    fn decoded(encoded: &[u8]) -> Result<Vec<u8>, u16> {
        let budget = Budget::new(64 << 20);
        let lease = budget.root().lease();
        let decoded = decode(Coding::Br, encoded, BYTES_MAX, &lease);
        let content = decoded.map(|content| content.filled().to_vec());
        content.map_err(|refused| refused.of_request().status)
    }

    /// Bits of a window beyond those of RFC 7932.
    const LARGE_WINDOW_BITS: i32 = 30;
    const WINDOW_BITS_MAX: i32 = 24;

    fn brotli(content: &[u8], window_bits: i32) -> Vec<u8> {
        let params = brotli::enc::BrotliEncoderParams {
            quality: 3,
            lgwin: window_bits,
            large_window: window_bits > WINDOW_BITS_MAX,
            ..Default::default()
        };
        let mut writer = brotli::CompressorWriter::with_params(Vec::new(), 4096, &params);
        writer.write_all(content).expect("a vector has room");
        writer.into_inner()
    }

    #[test]
    fn brotli_has_the_windows_of_its_rfc_alone() {
        let content = vec![b'a'; BYTES_MAX];
        assert_eq!(
            decoded(&brotli(&content, WINDOW_BITS_MAX)),
            Ok(content.clone())
        );
        let large = brotli(&content, LARGE_WINDOW_BITS);
        assert_eq!(large[0], 0x11, "it says that its window is large");
        assert_eq!(decoded(&large), Err(400));
    }

    #[test]
    fn what_is_longer_than_it_may_be_is_refused() {
        let longer = brotli(&vec![b'a'; BYTES_MAX + 1], WINDOW_BITS_MAX);
        assert_eq!(decoded(&longer), Err(413));
    }
}
