//! libFuzzer over the library's `malloc`.

#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| steppe_fuzz_targets::malloc::run(input));
