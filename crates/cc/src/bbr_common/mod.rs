//! Shared parts of BBRv1 (Linux's tcp_bbr) and BBRv3 (draft-ietf-ccwg-bbr-06). The comments name both sources. The
//! differing parts are in `bbr1/` and `bbr3/`.

mod model;
mod output;

pub(crate) use model::{AckAggregationEpoch, FullPipe, RoundCounter};
pub(crate) use output::{Cwnd, PACING_MARGIN, PacingRate, ProbeRtt};
