//! libFuzzer over the library's `dns_cache`.

#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| steppe_fuzz_targets::dns_cache::run(input));
