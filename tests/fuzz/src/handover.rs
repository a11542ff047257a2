//! Fuzzes [`tests::fuzz::HANDOVER`].

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| (tests::fuzz::HANDOVER.body)(data));
