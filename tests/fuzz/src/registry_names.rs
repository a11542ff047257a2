//! Fuzzes [`tests::fuzz::REGISTRY_NAMES`].

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| (tests::fuzz::REGISTRY_NAMES.body)(data));
