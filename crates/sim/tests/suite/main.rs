//! One test program: linking takes longer than most of these tests.

mod bidirectional;
mod bounds;
mod bulk;
mod bundle_nodes;
mod bundles_drawn;
mod bundles_forms;
mod closing;
#[path = "../common/mod.rs"]
mod common;
mod controllers;
mod cryptography;
mod drawn;
mod epidemic;
mod fq_codel;
mod handover;
mod loads;
mod ltp;
mod media;
mod nodes;
mod options;
mod packets_quic;
mod packets_tcp;
mod progress;
mod proxy_bytes;
mod proxy_setup;
mod receivers;
#[path = "../../../cc/tests/recurrence/tcp.rs"]
mod recurrence_tcp;
mod returns;
mod routers;
mod slow_start;
mod split;
mod stops;
mod tcp_closed_forms;
mod traces;
mod unused_window;
mod web_loads;
mod web_pages;
mod web_redirects;
mod web_split;
