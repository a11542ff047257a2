//! Fuzzes [`tests::fuzz::HAPROXY_CFG`].

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| (tests::fuzz::HAPROXY_CFG.body)(data));
