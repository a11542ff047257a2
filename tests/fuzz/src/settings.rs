//! Fuzzes [`tests::fuzz::SETTINGS`].

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| (tests::fuzz::SETTINGS.body)(data));
