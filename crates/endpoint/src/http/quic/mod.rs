//! HTTP/3 (RFC 9114) by the `h3` crate, inside an application of our own QUIC transport.
//!
//! Reading order: `state` (what the library's futures and the transport share), `streams` (the library's
//! traits over it), `app` (the transport's application, which polls the futures), `respond` (what the
//! futures do).

mod app;
mod exercise;
mod respond;
mod state;
mod streams;

pub(super) use app::WebApp;
pub use exercise::exercise;
pub(super) use respond::Context;
