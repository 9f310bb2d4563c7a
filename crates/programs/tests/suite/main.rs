//! One test program, because linking takes longer than most of these tests.

#[path = "../common/mod.rs"]
mod common;
mod controllers;
mod host;
mod loopback;
mod media;
mod tcp;
mod tcp_trouble;
mod tls_flights;
mod trouble;
