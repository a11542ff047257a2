//! Fuzzes [`tests::fuzz::KEEPALIVED_CONF`].

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| (tests::fuzz::KEEPALIVED_CONF.body)(data));
