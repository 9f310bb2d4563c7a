//! One program for all tests: linking takes longer than most of them.

mod quic_pair;
mod quic_streams;
mod tcp_fuzz;
mod tcp_pair;
mod tcp_paths;
mod tcp_recovery;
mod tcp_rules;
mod tcp_timeouts;
mod web_head_of_line;
