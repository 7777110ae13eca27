//! libFuzzer over the library's `chunked`.

#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| steppe_fuzz_targets::chunked::run(input));
