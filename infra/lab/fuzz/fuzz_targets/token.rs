//! libFuzzer's way into `fuzz::token`.

#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| {
    fuzz::token::enter(input);
});
