//! `grpc-timeout`: a timeout that was read can be written, and a written one is read as hardly less.
//!
//! Eight bytes are microseconds, the others a field's value.

use std::time::Duration;

use steppe_http::grpc::{Code, TimeoutText, timeout, write_timeout};

/// Checks one input; panics where a property fails.
pub fn run(input: &[u8]) {
    let Some((micros, bytes)) = input.split_first_chunk() else {
        return;
    };
    let micros = u64::from_le_bytes(*micros);
    if let Some(read) = timeout(bytes) {
        let (unit, digits) = bytes.split_last().expect("it has a unit");
        assert!(b"HMSmun".contains(unit) && digits.iter().all(u8::is_ascii_digit));
        assert!((1..=8).contains(&digits.len()));
        round_trip(read);
    }
    round_trip(Duration::from_micros(micros % MICROS_MAX));
    let code = Code::read(bytes);
    assert!(code == Code::Unknown || code.as_str().as_bytes() == bytes);
}

/// The longest timeout that can be written: 8 digits of hours.
const MICROS_MAX: u64 = 99_999_999 * 3_600_000_000;

fn round_trip(left: Duration) {
    let (mut room, mut again) = (TimeoutText::default(), TimeoutText::default());
    let written = write_timeout(left, &mut room);
    let read = timeout(written).expect("it was written here");
    assert!(read <= left);
    let lost = left - read;
    assert!(lost < Duration::from_micros(1) || lost * 1000 < left);
    assert_eq!(write_timeout(read, &mut again), written);
}
