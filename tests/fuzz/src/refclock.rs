//! Fuzzes [`tests::fuzz::REFCLOCK`].

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| (tests::fuzz::REFCLOCK.body)(data));
