//! Fuzzes [`tests::fuzz::CLIENT_HELLO`].

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| (tests::fuzz::CLIENT_HELLO.body)(data));
