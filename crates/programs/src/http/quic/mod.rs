//! HTTP/3 (RFC 9114) by the `h3` crate, inside an application of this project's QUIC transport.
//!
//! Reading order: `state` (shared by the futures of the library and the transport), `h3_streams` (the traits of the
//! library). The application `app` polls the futures of `respond`.

pub(crate) mod app;
mod h3_streams;
pub(crate) mod respond;
pub(crate) mod state;

pub(super) use app::Http3App;
pub(super) use respond::QuicServerContext;
