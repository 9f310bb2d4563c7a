//! A policer (RFC 2475 section 2.3.3.4): a token bucket that drops each packet without tokens at arrival, and delays none.
//! It has the single rate and burst of tc-police.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use units::{Descriptor, Opt, Packet, Rate, Time};

use super::queue_factory::LIMIT;
use super::{DropTail, QueueFactory};
use crate::checks::{ValidationResult, above_zero};
use crate::stage_factory::BuildContext;
use crate::{Channel, DropReason, Queue, QueueLimit, StageOutput, StageUpdate, checks};

/// A policer before the queue of a link.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema, PartialEq)]
#[serde(deny_unknown_fields)]
pub struct PolicerSpec {
    /// The limit of the queue behind the policer; unbounded without one.
    pub limit: Option<QueueLimit>,
    /// Rate of the tokens.
    pub rate_bit_s: u64,
    /// Largest number of tokens, in bytes. The bucket is full at the start.
    pub burst_bytes: u64,
}

impl PolicerSpec {
    /// The descriptor of the member.
    pub const DESCRIPTOR: Descriptor = Descriptor {
        scenario_name: "policer",
        spec_kind: "policer",
        aliases: &[],
        title: "Token bucket: drops packets above a rate and a burst, and delays none",
        reference: "RFC 2475 section 2.3.3.4, tc-police(8)",
        options: &[
            LIMIT,
            Opt::rate("rate", "rate_bit_s", "rate of the tokens").required(),
            Opt::size("burst", "burst_bytes", "size of the bucket, which is full at the start")
                .min(1.0)
                .required(),
        ],
        draws: false,
        live_name: "",
    };
}

impl QueueFactory for PolicerSpec {
    fn validate(&self) -> ValidationResult {
        checks::limit(self.limit)?;
        above_zero("rate_bit_s", self.rate_bit_s)?;
        above_zero("burst_bytes", self.burst_bytes)
    }

    fn build(&self, _: &BuildContext) -> Box<dyn Queue> {
        Box::new(Policer::new(self.limit, Rate(self.rate_bit_s), self.burst_bytes))
    }
}

/// Tokens of a packet byte: a rate of 1 bit/s adds one token each nanosecond, so no fraction is lost.
const TOKENS_PER_BYTE: u128 = 8 * 1_000_000_000;

/// A token bucket before a drop-tail queue.
#[derive(Debug)]
pub struct Policer {
    queue: DropTail,
    rate: Rate,
    max_tokens: u128,
    tokens: u128,
    updated_at: Time,
}

impl Policer {
    /// Creates a full bucket of `burst_bytes` that fills at `rate`, before a queue of at most `limit`.
    pub fn new(limit: Option<QueueLimit>, rate: Rate, burst_bytes: u64) -> Policer {
        let max_tokens = u128::from(burst_bytes) * TOKENS_PER_BYTE;
        let queue = DropTail::new(limit);
        Policer { queue, rate, max_tokens, tokens: max_tokens, updated_at: Time::ZERO }
    }

    /// Removes the tokens of a packet. Returns false if there are too few.
    fn take(&mut self, due: Time, packet: &Packet) -> bool {
        let added = u128::from(due.since(self.updated_at).0) * u128::from(self.rate.0);
        self.tokens = (self.tokens + added).min(self.max_tokens);
        self.updated_at = self.updated_at.max(due);
        let cost = u128::from(packet.bytes) * TOKENS_PER_BYTE;
        if self.tokens < cost {
            return false;
        }
        self.tokens -= cost;
        true
    }
}

impl Queue for Policer {
    fn enqueue(&mut self, due: Time, packet: Packet, out: &mut StageOutput) {
        if self.take(due, &packet) {
            self.queue.enqueue(due, packet, out);
        } else {
            out.drop(due, packet, DropReason::Aqm);
        }
    }

    fn dequeue(
        &mut self,
        now: Time,
        channel: &mut dyn Channel,
        out: &mut StageOutput,
    ) -> Option<Packet> {
        self.queue.dequeue(now, channel, out)
    }

    fn ready_at(&self) -> Time {
        self.queue.ready_at()
    }

    fn backlog(&self) -> (u64, u64) {
        self.queue.backlog()
    }

    fn last_dequeued_arrival(&self) -> Option<Time> {
        self.queue.last_dequeued_arrival()
    }

    fn apply_update(&mut self, due: Time, update: &StageUpdate, out: &mut StageOutput) {
        self.queue.apply_update(due, update, out);
    }
}
