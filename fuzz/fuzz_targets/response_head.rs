//! libFuzzer over the library's `response_head`.

#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| steppe_fuzz_targets::response_head::run(input));
