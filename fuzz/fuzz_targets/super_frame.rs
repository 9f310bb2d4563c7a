#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| targets::super_frame(bytes));
