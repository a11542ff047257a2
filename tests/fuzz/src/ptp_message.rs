//! Fuzzes [`tests::fuzz::PTP_MESSAGE`].

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| (tests::fuzz::PTP_MESSAGE.body)(data));
