//! libFuzzer over the library's `h2_connection`.

#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| steppe_fuzz_targets::h2_connection::run(input));
