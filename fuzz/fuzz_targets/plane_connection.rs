//! libFuzzer over the library's `plane_connection`.

#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| steppe_fuzz_targets::plane_connection::run(input));
