//! Fuzzes [`tests::fuzz::BUNDLE`].

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| (tests::fuzz::BUNDLE.body)(data));
