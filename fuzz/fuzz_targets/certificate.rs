//! libFuzzer over the library's `certificate`.

#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| steppe_fuzz_targets::certificate::run(input));
