//! Fuzzes [`tests::fuzz::RESPONSE`].

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| (tests::fuzz::RESPONSE.body)(data));
