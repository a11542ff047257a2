//! Fuzzes [`tests::fuzz::INSTALL_CONFIG`].

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| (tests::fuzz::INSTALL_CONFIG.body)(data));
