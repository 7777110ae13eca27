//! libFuzzer over the library's `cache_control`.

#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| steppe_fuzz_targets::cache_control::run(input));
