//! libFuzzer over the library's `grpc_web`.

#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| steppe_fuzz_targets::grpc_web::run(input));
