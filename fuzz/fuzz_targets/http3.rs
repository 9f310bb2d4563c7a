//! A connection's events of any kind and order, on the HTTP/3 server.
#![no_main]

libfuzzer_sys::fuzz_target!(|script: &[u8]| {
    endpoint::http::exercise(script);
});
