//! libFuzzer over the library's `file_fields`.

#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| steppe_fuzz_targets::file_fields::run(input));
