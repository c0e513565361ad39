//! libFuzzer entry point of `fuzz::event`.

#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| {
    fuzz::event::run(input);
});
