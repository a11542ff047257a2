//! Fuzzes [`tests::fuzz::CMDMON`].

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| (tests::fuzz::CMDMON.body)(data));
