//! Fuzzes [`tests::fuzz::REGISTRY_RANGE`].

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| (tests::fuzz::REGISTRY_RANGE.body)(data));
