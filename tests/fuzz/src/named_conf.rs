//! Fuzzes [`tests::fuzz::NAMED_CONF`].

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| (tests::fuzz::NAMED_CONF.body)(data));
