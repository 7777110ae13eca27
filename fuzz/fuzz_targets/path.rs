//! libFuzzer over the library's `path`.

#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| steppe_fuzz_targets::path::run(input));
