//! How slow start may end before the first loss. A controller asks after every ACK of its slow
//! start, and grows its window by the acknowledged bytes over [`Verdict::divisor`].

mod hystart;
mod hystart_pp;

use serde::{Deserialize, Serialize};
use units::Time;

use crate::{AckEvent, ControllerConfig};

use hystart::HyStart;
use hystart_pp::HyStartPlusPlus;

/// The option `slow_start_exit`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum SlowStartExit {
    /// Only loss, marks and the threshold end slow start.
    #[serde(rename = "none")]
    None,
    /// HyStart as Linux has it.
    #[serde(rename = "classic")]
    HyStart,
    /// RFC 9406.
    #[serde(rename = "hystart++")]
    HyStartPlusPlus,
}

/// The words of the option, for the catalogue.
pub const EXIT_VALUES: &[&str] = &["none", "classic", "hystart++"];

/// What the option means, for the catalogue.
pub const EXIT_DESCRIPTION: &str = "how slow start may end before a loss: not at all, HyStart with ACK \
                           train and delay as Linux has it, or HyStart++ (RFC 9406)";

/// What slow start may do with one ACK.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SlowStartDecision {
    /// The window grows by the acknowledged bytes over this.
    pub divisor: u64,
    /// Most of the acknowledged bytes that count.
    pub limit: u64,
    /// Slow start is over: the threshold is the present window.
    pub is_finished: bool,
}

impl SlowStartDecision {
    /// Bytes by which the window grows with `ack`.
    pub fn growth(&self, ack: &AckEvent) -> u64 {
        ack.credited_in_slow_start().min(self.limit) / self.divisor
    }

    /// Nothing to say against slow start.
    const CONTINUE: SlowStartDecision =
        SlowStartDecision { divisor: 1, limit: u64::MAX, is_finished: false };
}

/// The slow-start exit of one connection.
#[derive(Clone, Debug)]
pub enum SlowStart {
    /// No early exit.
    None,
    /// HyStart.
    HyStart(HyStart),
    /// HyStart++.
    HyStartPlusPlus(HyStartPlusPlus),
}

impl SlowStart {
    /// The exit that `option` names.
    pub fn new(option: SlowStartExit, config: &ControllerConfig) -> SlowStart {
        match option {
            SlowStartExit::None => SlowStart::None,
            SlowStartExit::HyStart => SlowStart::HyStart(HyStart::new(config)),
            SlowStartExit::HyStartPlusPlus => {
                SlowStart::HyStartPlusPlus(HyStartPlusPlus::new(config))
            }
        }
    }

    /// An ACK came during slow start while the window was `cwnd`.
    pub fn on_ack(&mut self, now: Time, ack: &AckEvent, cwnd: u64) -> SlowStartDecision {
        match self {
            SlowStart::None => SlowStartDecision::CONTINUE,
            SlowStart::HyStart(classic) => classic.on_ack(now, ack, cwnd),
            SlowStart::HyStartPlusPlus(hystart) => hystart.on_ack(ack),
        }
    }

    /// The window was reduced, or collapsed to its minimum.
    pub fn on_reduction(&mut self, now: Time, collapse: bool) {
        match self {
            SlowStart::None => {}
            // Linux starts it anew after a timeout.
            SlowStart::HyStart(classic) if collapse => classic.restart(now),
            SlowStart::HyStart(_) => {}
            // RFC 9406 section 4.3: only the initial slow start uses it.
            SlowStart::HyStartPlusPlus(_) => *self = SlowStart::None,
        }
    }
}
