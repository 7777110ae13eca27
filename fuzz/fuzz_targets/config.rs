//! libFuzzer over the library's `config`.

#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| steppe_fuzz_targets::config::run(input));
