//! libFuzzer entry point of `fuzz::address`.

#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| {
    fuzz::address::run(input);
});
