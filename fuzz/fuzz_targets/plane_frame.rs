//! libFuzzer over the library's `plane_frame`.

#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| steppe_fuzz_targets::plane_frame::run(input));
