//! libFuzzer on the one target whose feature of `fuzz-bodies` is on: `tests/fuzz/run TARGET`.

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    let [target] = fuzz_bodies::TARGETS else {
        panic!("exactly one feature of fuzz-bodies has to be on");
    };
    (target.body)(data);
});
