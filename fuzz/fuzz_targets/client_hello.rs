//! libFuzzer over the library's `client_hello`.

#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| steppe_fuzz_targets::client_hello::run(input));
