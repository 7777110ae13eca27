//! libFuzzer over the library's `trace_context`.

#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| steppe_fuzz_targets::trace_context::run(input));
