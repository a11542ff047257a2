//! Fuzzes [`tests::fuzz::HEALTH`].

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| (tests::fuzz::HEALTH.body)(data));
