//! Fuzzes [`tests::fuzz::REGISTRY_WIRE`].

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| (tests::fuzz::REGISTRY_WIRE.body)(data));
