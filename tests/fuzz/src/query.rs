//! Fuzzes [`tests::fuzz::QUERY`].

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| (tests::fuzz::QUERY.body)(data));
