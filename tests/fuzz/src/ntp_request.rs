//! Fuzzes [`tests::fuzz::NTP_REQUEST`].

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| (tests::fuzz::NTP_REQUEST.body)(data));
