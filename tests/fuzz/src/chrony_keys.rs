//! Fuzzes [`tests::fuzz::CHRONY_KEYS`].

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| (tests::fuzz::CHRONY_KEYS.body)(data));
