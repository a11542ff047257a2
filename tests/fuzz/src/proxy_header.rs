//! Fuzzes [`tests::fuzz::PROXY_HEADER`].

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| (tests::fuzz::PROXY_HEADER.body)(data));
