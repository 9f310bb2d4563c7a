//! The serialisable specification of a radio link: its channel, what its link layer does about errors, and how it
//! puts packets in order again.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{ChannelSpec, QueueSpec, services, validate};

/// A queue before a radio link.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema, PartialEq)]
#[serde(deny_unknown_fields)]
pub struct RadioSpec {
    /// The queue.
    pub queue: QueueSpec,
    /// The channel; none: no noise, for a decoder that knows its block error rates.
    pub channel: Option<ChannelSpec>,
    /// What the link layer does.
    pub link_layer: LinkLayerSpec,
    /// The reordering buffer; none: packets leave as they are decoded.
    pub reordering: Option<ReorderingSpec>,
}

/// A link layer: how many coded bits a packet becomes, when a receiver can decode it, and what follows if not.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema, PartialEq)]
#[serde(deny_unknown_fields)]
pub struct LinkLayerSpec {
    /// Coded bits per second on the air.
    pub rate_bit_s: u64,
    /// Information bytes of a frame. A packet that needs less is padded, one that needs more has several.
    pub frame_bytes: u32,
    /// Coded bits of each frame that carry no code: headers, pilots.
    pub overhead_bits: u32,
    /// As many more in a packet's first attempt: what is sent once and carries no code, such as the packet itself.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub first_overhead_bits: u32,
    /// Coded bits of a frame in each attempt; the last holds for all that follow.
    pub code: CodeSpec,
    /// When a receiver can decode.
    pub decoder: DecoderSpec,
    /// What becomes of attempts that failed.
    pub combining: Combining,
    /// In which order packets are sent again.
    pub repeat: Repeat,
    /// Attempts at a packet; none: until it is decoded.
    pub attempts: Option<u32>,
    /// Packets that are not settled; none: any number.
    pub window: Option<u32>,
    /// The receiver's answers; none: it gives none, which only a single attempt can do without.
    pub feedback: Option<FeedbackSpec>,
    /// How long after an attempt's end the sender waits for an answer; none: until it comes.
    pub time_out_ns: Option<u64>,
}

impl RadioSpec {
    /// Coded bits of a frame in each attempt; the last holds for all that follow.
    ///
    /// # Errors
    /// What is wrong with the specification.
    pub fn coded_bits(&self) -> Result<Vec<u32>, String> {
        validate::radio(self)?;
        Ok(services::coded_bits(&self.link_layer, self.channel.as_ref()))
    }
}

#[allow(clippy::trivially_copy_pass_by_ref, reason = "as serde calls it")]
fn is_zero(bits: &u32) -> bool {
    *bits == 0
}

impl LinkLayerSpec {
    /// Bits of packets that it can never carry more of in a second: all decoded at the first attempt.
    pub fn useful_rate_bit_s(&self) -> u64 {
        let information = u64::from(self.frame_bytes) * 8;
        let first = match &self.code {
            CodeSpec::Given { coded_bits } => coded_bits.first().map_or(0, |bits| u64::from(*bits)),
            CodeSpec::Adaptive { .. } => information,
        };
        let overhead = u64::from(self.overhead_bits) + u64::from(self.first_overhead_bits);
        let coded = (first + overhead).max(1);
        (u128::from(self.rate_bit_s) * u128::from(information)).div_ceil(u128::from(coded)) as u64
    }
}

/// Coded bits of a frame in each attempt.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema, PartialEq)]
#[serde(tag = "kind", rename_all = "snake_case", deny_unknown_fields)]
pub enum CodeSpec {
    /// These.
    Given {
        /// By attempt; the last holds for all that follow.
        coded_bits: Vec<u32>,
    },
    /// As many as the long run of the channel asks for: see `services/design.rs`.
    Adaptive {
        /// Rate of the mother code: a frame has at most its information bits divided by this.
        mother_rate: f64,
        /// Share of packets that shall be decoded after the first, second... attempt; after the last come all that the
        /// mother code has left.
        decoded: Vec<f64>,
    },
}

/// When a receiver can decode a frame.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema, PartialEq)]
#[serde(tag = "kind", rename_all = "snake_case", deny_unknown_fields)]
pub enum DecoderSpec {
    /// When it has gathered `margin` times its information bits of mutual information.
    Information {
        /// At least 1: the distance of the code to the bound.
        margin: f64,
    },
    /// With these chances, whatever the channel.
    BlockErrors {
        /// Chance that a packet is not decoded, by attempt; the last holds for all that follow.
        probabilities: Vec<f64>,
    },
}

/// What a receiver does with attempts that it could not decode.
#[derive(Clone, Copy, Debug, Serialize, Deserialize, JsonSchema, PartialEq, Eq)]
#[serde(rename_all = "snake_case")]
pub enum Combining {
    /// Forgets them: ARQ, HARQ type I.
    None,
    /// Adds the same bits' Es/N0: Chase combining.
    Chase,
    /// Adds the mutual information of new bits: incremental redundancy, HARQ types II and III.
    Incremental,
}

/// In which order packets are sent again.
#[derive(Clone, Copy, Debug, Serialize, Deserialize, JsonSchema, PartialEq, Eq)]
#[serde(rename_all = "snake_case")]
pub enum Repeat {
    /// Each for itself.
    Selective,
    /// With all that came after it: the receiver takes them in order only.
    GoBackN,
}

/// How what a stage tells comes to who hears it.
#[derive(Clone, Copy, Debug, Serialize, Deserialize, JsonSchema, PartialEq)]
#[serde(deny_unknown_fields)]
pub struct FeedbackSpec {
    /// How much later it is heard; more than zero.
    pub delay_ns: u64,
    /// Chance that it never is.
    pub loss: f64,
}

/// A reordering buffer.
#[derive(Clone, Copy, Debug, Serialize, Deserialize, JsonSchema, PartialEq, Eq)]
#[serde(deny_unknown_fields)]
pub struct ReorderingSpec {
    /// Packets of a flow that wait when all of them leave.
    pub packets: u64,
    /// How long a packet waits before all of its flow leave; none: for ever.
    pub time_limit_ns: Option<u64>,
    /// What says which packet is the next.
    pub numbering: Numbering,
}

/// What a reordering buffer goes by.
#[derive(Clone, Copy, Debug, Serialize, Deserialize, JsonSchema, PartialEq, Eq)]
#[serde(rename_all = "snake_case")]
pub enum Numbering {
    /// The link layer's own numbers, in order of first transmissions.
    Link,
    /// TCP's sequence numbers; what has none passes.
    Tcp,
}
