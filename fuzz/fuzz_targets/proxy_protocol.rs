//! libFuzzer over the library's `proxy_protocol`.

#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| steppe_fuzz_targets::proxy_protocol::run(input));
