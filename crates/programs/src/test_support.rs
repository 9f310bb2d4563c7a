//! Items that `bentpipe-fuzz-harness` drives with untrusted input.

pub use crate::http::access_log::AccessLog;
pub use crate::http::filler::BodyFiller;
pub use crate::http::quic::app::Http3App;
pub use crate::http::quic::respond::QuicServerContext;
pub use crate::http::quic::state::{LOW_WATERMARK, STREAM_WINDOW};
pub use crate::http::site::{Resource, Site};
pub use crate::media::callee::exercise_offer;
pub use crate::media::report::DirectionReport;
pub use crate::media::session::MAX_DELAY;
pub use crate::media::signalling::{
    CallAnswer, CallOffer, LineReader, MAX_OFFER_BYTES, MAX_REPORT_BYTES, RemoteReport,
};
pub use crate::perf::tcp_options::apply_requested_controller;
