//! One program: linking takes longer than most of these tests.

mod calls;
#[path = "../common/mod.rs"]
mod common;
mod controllers;
mod host;
mod loopback;
mod tcp;
mod tcp_trouble;
mod tls_flights;
mod trouble;
