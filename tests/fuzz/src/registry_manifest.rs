//! Fuzzes [`tests::fuzz::REGISTRY_MANIFEST`].

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| (tests::fuzz::REGISTRY_MANIFEST.body)(data));
