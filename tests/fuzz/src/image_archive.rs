//! Fuzzes [`tests::fuzz::IMAGE_ARCHIVE`].

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| (tests::fuzz::IMAGE_ARCHIVE.body)(data));
