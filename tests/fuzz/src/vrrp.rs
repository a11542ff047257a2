//! Fuzzes [`tests::fuzz::VRRP`].

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| (tests::fuzz::VRRP.body)(data));
