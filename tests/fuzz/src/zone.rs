//! Fuzzes [`tests::fuzz::ZONE`].

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| (tests::fuzz::ZONE.body)(data));
