//! Fuzzes [`tests::fuzz::CHRONY_CONF`].

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| (tests::fuzz::CHRONY_CONF.body)(data));
