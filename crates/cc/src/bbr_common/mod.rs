//! Shared parts of BBRv1 (Linux's tcp_bbr) and BBRv3 (draft-ietf-ccwg-bbr-06). The comments name both sources. The
//! differing parts are in `bbr1/` and `bbr3/`.

mod aggregation;
mod cwnd;
mod full_pipe;
mod pacing;
mod probe_rtt;
mod round;
mod self_limited;

pub(crate) use aggregation::AckAggregationEpoch;
pub(crate) use cwnd::Cwnd;
pub(crate) use full_pipe::FullPipe;
pub(crate) use pacing::{PACING_MARGIN, PacingRate};
pub(crate) use probe_rtt::ProbeRtt;
pub(crate) use round::RoundCounter;
