//! libFuzzer over the library's `dns_over_https`.

#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| steppe_fuzz_targets::dns_over_https::run(input));
