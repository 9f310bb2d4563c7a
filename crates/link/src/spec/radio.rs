//! The serialisable specification of a radio link: its channel, its error control and its reordering buffer.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use units::{Descriptor, Opt};

use crate::checks::{ValidationResult, above_zero, not_empty, probability};
use crate::{ChannelSpec, FeedbackSpec, QueueSpec};

/// A queue before a radio link.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema, PartialEq)]
#[serde(deny_unknown_fields)]
pub struct RadioSpec {
    /// The queue.
    pub queue: QueueSpec,
    /// The channel; without one there is no noise, for a decoder with known block error rates.
    pub channel: Option<ChannelSpec>,
    /// The link layer.
    pub link_layer: LinkLayerSpec,
    /// The reordering buffer; without one, packets are delivered in order of decoding.
    pub reordering: Option<ReorderingSpec>,
}

/// A link layer: the coded bits per packet, the decoding condition, and the error control.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema, PartialEq)]
#[serde(deny_unknown_fields)]
pub struct LinkLayerSpec {
    /// Coded bits per second on the air interface.
    pub rate_bit_s: u64,
    /// Information bytes of a frame. Smaller packets are padded; larger packets use several frames.
    pub frame_bytes: u32,
    /// Uncoded overhead bits per frame: headers, pilots.
    pub overhead_bits: u32,
    /// Additional overhead bits of the first attempt: uncoded parts sent once, such as the packet itself.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub first_overhead_bits: u32,
    /// Coded bits of a frame in each attempt; the last value applies to all later attempts.
    pub code: CodeSpec,
    /// The decoding condition.
    pub decoder: DecoderSpec,
    /// The treatment of failed attempts.
    pub combining: HarqCombining,
    /// The order of retransmissions.
    pub repeat: ArqScheme,
    /// Maximum number of attempts; without a limit, until the packet is decoded.
    pub attempts: Option<u32>,
    /// Maximum number of unacknowledged packets; without a limit, any number.
    pub window: Option<u32>,
    /// The feedback of the receiver; only a link with a single attempt can omit it.
    pub feedback: Option<FeedbackSpec>,
    /// Time that the sender waits for feedback after an attempt; without a limit, until feedback arrives.
    pub timeout_ns: Option<u64>,
}

impl RadioSpec {
    /// Validates the specification.
    pub(crate) fn check(&self) -> ValidationResult {
        self.queue.factory().validate()?;
        if let Some(channel) = &self.channel {
            channel.factory().validate().map_err(|message| format!("channel: {message}"))?;
        }
        self.link_layer.check()?;
        match self.reordering {
            Some(buffer) => above_zero("reordering: packets", buffer.packets),
            None => Ok(()),
        }
    }
}

#[allow(clippy::trivially_copy_pass_by_ref, reason = "as serde calls it")]
fn is_zero(bits: &u32) -> bool {
    *bits == 0
}

impl LinkLayerSpec {
    /// Validates the specification.
    fn check(&self) -> ValidationResult {
        above_zero("rate_bit_s", self.rate_bit_s)?;
        above_zero("frame_bytes", u64::from(self.frame_bytes))?;
        if self.attempts == Some(0) || self.window == Some(0) {
            return Err("attempts and window must be above 0, or none".into());
        }
        let information = f64::from(self.frame_bytes) * 8.0;
        match &self.code {
            CodeSpec::Given { coded_bits } => {
                not_empty("coded_bits", coded_bits)?;
                coded_bits
                    .iter()
                    .try_for_each(|bits| above_zero("coded_bits", u64::from(*bits)))?;
                if self.combining == HarqCombining::Chase && coded_bits.len() > 1 {
                    return Err(
                        "coded_bits must have one entry: Chase combining repeats the same bits"
                            .into(),
                    );
                }
            }
            CodeSpec::Adaptive { mother_rate, target_decoded_ratio } => {
                if !(*mother_rate > 0.0 && *mother_rate <= 1.0) {
                    return Err(format!(
                        "mother_rate = {mother_rate} is not above 0 and at most 1"
                    ));
                }
                if information / mother_rate > f64::from(u32::MAX) {
                    return Err(format!("mother_rate = {mother_rate} is too low for frame_bytes"));
                }
                target_decoded_ratio
                    .iter()
                    .try_for_each(|share| probability("target_decoded_ratio", *share))?;
                if self.attempts != u32::try_from(target_decoded_ratio.len() + 1).ok() {
                    return Err(format!(
                        "target_decoded_ratio has {} values, expected one fewer than attempts",
                        target_decoded_ratio.len()
                    ));
                }
                if self.feedback.is_none() || self.combining != HarqCombining::Incremental {
                    return Err(
                        "adaptive coded bits need feedback and incremental combining".into()
                    );
                }
            }
        }
        match &self.decoder {
            DecoderSpec::Information { margin } if *margin < 1.0 || !margin.is_finite() => {
                return Err(format!("margin = {margin} is below 1"));
            }
            DecoderSpec::Information { .. } => {}
            DecoderSpec::BlockErrors { probabilities } => {
                not_empty("probabilities", probabilities)?;
                probabilities.iter().try_for_each(|p| probability("probabilities", *p))?;
            }
        }
        match self.feedback {
            None if self.attempts != Some(1) => Err("attempts must be 1 without feedback".into()),
            None => Ok(()),
            Some(feedback) => {
                above_zero("feedback: delay_ns", feedback.delay_ns)?;
                probability("feedback: loss", feedback.loss)?;
                match self.timeout_ns {
                    None if feedback.loss > 0.0 => {
                        Err("feedback that may be lost needs timeout_ns".into())
                    }
                    Some(after) if after < feedback.delay_ns => {
                        Err(format!("timeout_ns = {after} is shorter than the feedback's delay"))
                    }
                    _ => Ok(()),
                }
            }
        }
    }

    /// Returns an upper bound of the goodput in bits per second: all packets decoded at the first attempt.
    pub fn max_goodput_bit_s(&self) -> u64 {
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
    /// Fixed numbers.
    Given {
        /// Coded bits by attempt; the last value applies to all later attempts.
        coded_bits: Vec<u32>,
    },
    /// Numbers derived from the long-term statistics of the channel: see `services/harq_code_design.rs`.
    Adaptive {
        /// Rate of the mother code: the maximum is the information bits of a frame divided by this rate.
        mother_rate: f64,
        /// Share of packets to be decoded after the first, second... attempt. After the last, the rest of the mother
        /// code is sent.
        target_decoded_ratio: Vec<f64>,
    },
}

/// The condition under which a receiver decodes a frame.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema, PartialEq)]
#[serde(tag = "kind", rename_all = "snake_case", deny_unknown_fields)]
pub enum DecoderSpec {
    /// The accumulated mutual information is at least `margin` times the information bits.
    Information {
        /// At least 1: the gap of the code to capacity.
        margin: f64,
    },
    /// Fixed probabilities, independent of the channel.
    BlockErrors {
        /// Block error probability by attempt; the last value applies to all later attempts.
        probabilities: Vec<f64>,
    },
}

/// The combining of attempts that the receiver could not decode.
#[derive(Clone, Copy, Debug, Serialize, Deserialize, JsonSchema, PartialEq, Eq)]
#[serde(rename_all = "snake_case")]
pub enum HarqCombining {
    /// No combining: ARQ, HARQ type I.
    None,
    /// Adds the Es/N0 of the same bits: Chase combining.
    Chase,
    /// Adds the mutual information of new bits: incremental redundancy, HARQ types II and III.
    Incremental,
}

/// The order of retransmissions.
#[derive(Clone, Copy, Debug, Serialize, Deserialize, JsonSchema, PartialEq, Eq)]
#[serde(rename_all = "snake_case")]
pub enum ArqScheme {
    /// Each packet individually.
    Selective,
    /// With all later packets: the receiver accepts packets in order only.
    GoBackN,
}

/// A reordering buffer.
#[derive(Clone, Copy, Debug, Serialize, Deserialize, JsonSchema, PartialEq, Eq)]
#[serde(deny_unknown_fields)]
pub struct ReorderingSpec {
    /// Limit in packets per flow; a full buffer releases all packets of the flow.
    pub packets: u64,
    /// Maximum waiting time, after which all packets of the flow are released; without a limit, unlimited.
    pub time_limit_ns: Option<u64>,
    /// The sequence numbers in use.
    pub numbering: Numbering,
}

impl ReorderingSpec {
    /// The descriptor of the member.
    pub const DESCRIPTOR: Descriptor = Descriptor {
        scenario_name: "reordering_buffer",
        spec_kind: "",
        aliases: &[],
        title: "A buffer behind a link layer that restores the order of packets",
        reference: "Tauran 2018, section 4.4.1",
        options: &[
            Opt::integer("packets", 0, 1 << 20, "limit of packets for each flow; 0 is no buffer")
                .default_integer(125),
            Opt::duration(
                "time_limit",
                "time_limit_ns",
                "longest waiting time; the default is no limit",
            )
            .min(1.0),
            Opt::choice("numbering", &["link", "tcp"], "sequence numbers in use")
                .default_word("link"),
        ],
        draws: false,
        live_name: "",
    };
}

/// The sequence numbers of a reordering buffer.
#[derive(Clone, Copy, Debug, Serialize, Deserialize, JsonSchema, PartialEq, Eq)]
#[serde(rename_all = "snake_case")]
pub enum Numbering {
    /// The numbers of the link layer, in order of first transmissions.
    Link,
    /// TCP's sequence numbers; other packets pass at once.
    Tcp,
}
