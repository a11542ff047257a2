//! Fuzzes [`tests::fuzz::REGISTRY_ARCHIVE`].

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| (tests::fuzz::REGISTRY_ARCHIVE.body)(data));
