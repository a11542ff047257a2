//! Fuzzes [`tests::fuzz::NTP_PACKET`].

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| (tests::fuzz::NTP_PACKET.body)(data));
