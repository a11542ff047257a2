//! Fuzzes [`tests::fuzz::PTP_MANAGEMENT`].

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| (tests::fuzz::PTP_MANAGEMENT.body)(data));
