//! libFuzzer over the library's `json_content`.

#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| steppe_fuzz_targets::json_content::run(input));
