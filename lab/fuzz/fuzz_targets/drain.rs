//! libFuzzer entry point of `fuzz::drain`.

#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| {
    fuzz::drain::run(input);
});
