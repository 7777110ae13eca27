//! libFuzzer over the library's `request_head`.

#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| steppe_fuzz_targets::request_head::run(input));
