//! Fuzzes [`tests::fuzz::REGISTRY_JOURNAL`].

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| (tests::fuzz::REGISTRY_JOURNAL.body)(data));
