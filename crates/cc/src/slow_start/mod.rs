//! Algorithms that end slow start before the first loss. A controller calls them for every ACK in slow start, and grows
//! its window by the acknowledged bytes divided by [`SlowStartDecision::divisor`].

mod decision;
mod hystart;
mod hystart_pp;

use serde::Deserialize;
use units::Time;

use crate::{AckEvent, ControllerConfig};

pub use decision::SlowStartDecision;
use hystart::HyStart;
use hystart_pp::HyStartPlusPlus;

/// The option `slow_start_exit`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
pub enum SlowStartExit {
    /// Only loss, marks and the threshold end slow start.
    #[serde(rename = "none")]
    None,
    /// HyStart as in Linux.
    #[serde(rename = "classic")]
    HyStart,
    /// HyStart++ (RFC 9406).
    #[serde(rename = "hystart++")]
    HyStartPlusPlus,
}

/// The values of the option, for the catalogue.
pub const EXIT_VALUES: &[&str] = &["none", "classic", "hystart++"];

/// The description of the option, for the catalogue.
pub const EXIT_DESCRIPTION: &str = "end of slow start before a loss: none, HyStart of Linux (ACK train \
                           and delay), or HyStart++ (RFC 9406)";

/// The slow-start exit algorithm of one connection.
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
    /// Returns the exit algorithm for `option`.
    pub fn new(option: SlowStartExit, config: &ControllerConfig) -> SlowStart {
        match option {
            SlowStartExit::None => SlowStart::None,
            SlowStartExit::HyStart => SlowStart::HyStart(HyStart::new(config)),
            SlowStartExit::HyStartPlusPlus => {
                SlowStart::HyStartPlusPlus(HyStartPlusPlus::new(config))
            }
        }
    }

    /// Processes an ACK in slow start with the window `cwnd` in bytes.
    pub fn on_ack(&mut self, now: Time, ack: &AckEvent, cwnd: u64) -> SlowStartDecision {
        match self {
            SlowStart::None => SlowStartDecision::CONTINUE,
            SlowStart::HyStart(classic) => classic.on_ack(now, ack, cwnd),
            SlowStart::HyStartPlusPlus(hystart) => hystart.on_ack(ack),
        }
    }

    /// Records that the window was reduced, or collapsed to its minimum.
    pub fn on_reduction(&mut self, now: Time, collapse: bool) {
        match self {
            SlowStart::None => {}
            // Linux restarts HyStart after a timeout.
            SlowStart::HyStart(classic) if collapse => classic.restart(now),
            SlowStart::HyStart(_) => {}
            // RFC 9406 section 4.3: only the initial slow start uses HyStart++.
            SlowStart::HyStartPlusPlus(_) => *self = SlowStart::None,
        }
    }
}
