//! Feedback between the stages of a simplex link: delayed and lossy messages.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use units::{RandomStream, Span, Time};

use crate::Feedback;
use crate::delay_queue::DelayHeap;

/// The properties of a feedback channel between stages.
#[derive(Clone, Copy, Debug, Serialize, Deserialize, JsonSchema, PartialEq)]
#[serde(deny_unknown_fields)]
pub struct FeedbackSpec {
    /// Delay; more than zero.
    pub delay_ns: u64,
    /// Loss probability.
    pub loss: f64,
}

/// A feedback channel between two stages of one simplex link. Both ends can be the same stage: a transmitter models
/// sender and receiver.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct FeedbackChannel {
    /// The index of the sending stage.
    pub from: usize,
    /// The index of the receiving stage.
    pub to: usize,
    /// The delay and the loss probability.
    pub spec: FeedbackSpec,
}

/// Counters of the feedback of a simplex link since the start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FeedbackStats {
    /// Messages sent, counted per channel.
    pub sent: u64,
    /// Messages lost.
    pub lost: u64,
}

/// The feedback channels of a simplex link.
#[derive(Default)]
pub(crate) struct FeedbackChannels {
    /// The sending stages.
    sources: Vec<FeedbackSource>,
    /// Messages in flight with the index of the receiving stage.
    in_flight: DelayHeap<(usize, Feedback)>,
    stats: FeedbackStats,
}

struct FeedbackSource {
    from: usize,
    channels: Vec<(FeedbackChannel, RandomStream)>,
}

impl FeedbackChannels {
    pub fn add(&mut self, channel: FeedbackChannel, random: RandomStream) {
        match self.sources.iter_mut().find(|source| source.from == channel.from) {
            Some(source) => source.channels.push((channel, random)),
            None => self
                .sources
                .push(FeedbackSource { from: channel.from, channels: vec![(channel, random)] }),
        }
    }

    /// Sends the pending feedback. `take` moves the messages of the stage with the given index since the last call into
    /// the list.
    pub fn send_pending(&mut self, mut take: impl FnMut(usize, &mut Vec<(Time, Feedback)>)) {
        let mut pending = Vec::new();
        for FeedbackSource { from, channels: wires } in &mut self.sources {
            take(*from, &mut pending);
            for (at, feedback) in pending.drain(..) {
                for (channel, random) in wires.iter_mut() {
                    self.stats.sent += 1;
                    if random.chance(channel.spec.loss) {
                        self.stats.lost += 1;
                    } else {
                        self.in_flight
                            .push(at + Span(channel.spec.delay_ns), (channel.to, feedback));
                    }
                }
            }
        }
    }

    /// Returns the next message and the index of its receiver, if it is due by `now`.
    pub fn pop_due(&mut self, now: Time) -> Option<(usize, Feedback)> {
        self.in_flight.pop_due(now).map(|(_, message)| message)
    }

    /// Returns the arrival time of the next message; [`Time::MAX`] if there is none in flight.
    pub fn next_due(&self) -> Time {
        self.in_flight.next_due()
    }

    pub fn stats(&self) -> FeedbackStats {
        self.stats
    }
}
