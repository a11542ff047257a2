//! Fuzzes [`tests::fuzz::SITE_FILE`].

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| (tests::fuzz::SITE_FILE.body)(data));
