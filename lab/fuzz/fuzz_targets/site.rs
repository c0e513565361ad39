//! libFuzzer entry point of `fuzz::site`.

#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| {
    fuzz::site::run(input);
});
