//! The serialisable specification of a 5G link (New Radio): transport blocks in slots, HARQ processes, RLC and PDCP.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use units::{Descriptor, Opt};

use crate::checks::{above_zero, probability};
use crate::{ChannelSpec, DecoderSpec, FeedbackSpec, HarqCombining, QueueSpec};

/// Minimum transport block: the headers of a segment and some payload.
const MIN_BLOCK_BYTES: u32 = 16;
/// `nrofHARQ-ProcessesForPDSCH` of Release 17 (TS 38.331): at most 32.
const MAX_PROCESSES: u32 = 32;
/// `pdsch-AggregationFactor` (TS 38.331): at most 8.
const MAX_REPETITIONS: u32 = 8;
/// Maximum lookback into the history of a channel.
const MAX_LOOKBACK_NS: u64 = 1_000_000_000;

/// A queue before a 5G link of one bearer.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema, PartialEq)]
#[serde(deny_unknown_fields)]
pub struct NrSpec {
    /// The queue.
    pub queue: QueueSpec,
    /// The channel; without one there is no noise, for a decoder with known block error rates.
    pub channel: Option<ChannelSpec>,
    /// Length of a slot, which contains one transport block.
    pub slot_ns: u64,
    /// Bytes of a transport block, headers of MAC, RLC and PDCP included.
    pub block_bytes: u32,
    /// Coded bits of a slot.
    pub coded_bits: u32,
    /// The decoding condition of a block; block error rates count slots, repetitions included.
    pub decoder: DecoderSpec,
    /// The combining of slots that were not sufficient.
    pub combining: HarqCombining,
    /// HARQ processes.
    pub processes: u32,
    /// HARQ processes with disabled feedback: their blocks are sent once.
    pub feedback_disabled_processes: u32,
    /// Consecutive slots per transmission of a block (slot aggregation, blind repetition).
    pub repetitions: u32,
    /// Maximum number of transmissions of a block of the other processes.
    pub attempts: u32,
    /// Slots from the scheduling decision to the first slot of the block.
    pub offset_slots: u32,
    /// The feedback of the receiver: HARQ feedback and RLC status reports; `None` without feedback.
    pub feedback: Option<FeedbackSpec>,
    /// The treatment of lost blocks by RLC.
    pub rlc: RlcSpec,
    /// Reordering in PDCP; without it, packets are delivered in order of arrival.
    pub reordering: Option<PdcpReorderingSpec>,
}

/// The mode of RLC (TS 38.322).
#[derive(Clone, Copy, Debug, Serialize, Deserialize, JsonSchema, PartialEq, Eq)]
#[serde(tag = "kind", rename_all = "snake_case", deny_unknown_fields)]
pub enum RlcSpec {
    /// UM: without retransmissions.
    Unacknowledged,
    /// AM: with retransmissions.
    Acknowledged(RlcAcknowledgedSpec),
}

/// RLC's acknowledged mode (TS 38.322 section 7).
#[derive(Clone, Copy, Debug, Serialize, Deserialize, JsonSchema, PartialEq, Eq)]
#[serde(deny_unknown_fields)]
pub struct RlcAcknowledgedSpec {
    /// `pollPDU`; `None`: infinity.
    pub poll_pdus: Option<u32>,
    /// `pollByte`; `None`: infinity.
    pub poll_bytes: Option<u64>,
    /// `t-PollRetransmit`.
    pub poll_retransmit_ns: u64,
    /// `t-Reassembly`.
    pub reassembly_ns: u64,
    /// `t-StatusProhibit`.
    pub status_prohibit_ns: u64,
    /// `maxRetxThreshold`.
    pub max_retransmissions: u32,
}

/// In-order delivery (TS 38.323 section 5.2.2).
#[derive(Clone, Copy, Debug, Serialize, Deserialize, JsonSchema, PartialEq, Eq)]
#[serde(deny_unknown_fields)]
pub struct PdcpReorderingSpec {
    /// `t-Reordering`; `None`: infinity.
    pub time_limit_ns: Option<u64>,
}

/// Minimum slot: a subcarrier spacing of 960 kHz (TS 38.211 section 4.3.2).
const MIN_SLOT_NS: f64 = 15_625.0;
const MAX_SLOT_NS: f64 = 1e8;

impl RlcSpec {
    /// The descriptors of the modes in the order of the manual.
    pub const DESCRIPTORS: &'static [&'static Descriptor] =
        &[&RlcAcknowledgedSpec::DESCRIPTOR, &RlcSpec::UNACKNOWLEDGED];

    const UNACKNOWLEDGED: Descriptor = Descriptor {
        scenario_name: "um",
        spec_kind: "unacknowledged",
        aliases: &[],
        title: "Unacknowledged mode: no retransmissions",
        reference: "TS 38.322 section 4.2.1.2",
        options: &[],
        draws: false,
        live_name: "",
    };
}

impl RlcAcknowledgedSpec {
    /// The descriptor of the member.
    pub const DESCRIPTOR: Descriptor = Descriptor {
        scenario_name: "am",
        spec_kind: "acknowledged",
        aliases: &[],
        title: "Acknowledged mode: status reports and retransmissions",
        reference: "TS 38.322 section 7",
        options: &[
            Opt::hook("poll_pdus", "poll_pdus", "poll_pdus", "`pollPDU`, 1 to 65,536")
                .default_integer(32),
            Opt::size("poll_bytes", "poll_bytes", "`pollByte`; the default is infinity").min(1.0),
            Opt::hook(
                "poll_retransmit",
                "poll_retransmit_ns",
                "poll_retransmit_ns",
                "`t-PollRetransmit`",
            ),
            Opt::hook("reassembly", "reassembly_ns", "reassembly_ns", "`t-Reassembly`"),
            Opt::hook(
                "status_prohibit",
                "status_prohibit_ns",
                "status_prohibit_ns",
                "`t-StatusProhibit`",
            ),
            Opt::integer("max_retransmissions", 1, 32, "`maxRetxThreshold`").default_integer(32),
        ],
        draws: false,
        live_name: "",
    };
}

impl NrSpec {
    /// The descriptor of the member.
    pub const DESCRIPTOR: Descriptor = Descriptor {
        scenario_name: "nr",
        spec_kind: "nr",
        aliases: &[],
        title: "A bearer of 5G New Radio: transport blocks in slots, HARQ processes, RLC and PDCP",
        reference: "3GPP Release 17",
        options: &[
            Opt::duration("slot", "slot_ns", "slot, which has one block of `rate` times `slot`")
                .min(MIN_SLOT_NS)
                .max(MAX_SLOT_NS)
                .default_integer(1_000_000),
            Opt::integer("processes", 1, MAX_PROCESSES as u64, "HARQ processes").default_integer(16),
            Opt::integer(
                "feedback_disabled_processes",
                0,
                MAX_PROCESSES as u64,
                "HARQ processes that send a block once and wait for no feedback",
            )
            .default_integer(0),
            Opt::integer(
                "repetitions",
                1,
                MAX_REPETITIONS as u64,
                "consecutive slots in which a block is sent each time",
            )
            .default_integer(1),
            Opt::integer("retransmissions", 0, 1_000, "retransmissions of a block by HARQ")
                .field("")
                .default_integer(3),
            Opt::integer(
                "scheduling_offset",
                0,
                1_024,
                "slots from the decision about a block to the block",
            )
            .field("offset_slots")
            .default_integer(0),
            Opt::hook(
                "block_error_rate",
                "",
                "block_error_rate",
                "probabilities by slot of a block with repetitions, instead of the channel; the last value holds for \
                 all further slots",
            ),
            Opt::hook("code_rate", "", "code_rate", "code rate of a slot; required over a channel"),
            Opt::choice(
                "combining",
                &["none", "chase", "incremental"],
                "combining of slots that a receiver could not decode",
            )
            .default_word("incremental"),
            Opt::number(
                "margin",
                1.0,
                100.0,
                "mutual information that a block needs, over its information bits",
            )
            .field("")
            .default_number(1.05),
            Opt::duration(
                "feedback_delay",
                "",
                "delay of feedback from the end of a block; the default is the round trip of the segment",
            )
            .min(1.0),
            Opt::probability("feedback_loss", "loss of the feedback")
                .field("")
                .default_number(0.0),
            Opt::hook(
                "rlc",
                "rlc",
                "rlc",
                "mode of RLC, `\"am\"` or `\"um\"`, or a table with `mode`; the default is `\"am\"`",
            ),
            Opt::flag("in_order", "whether PDCP delivers in order").field("").default_flag(true),
            Opt::duration(
                "reordering",
                "",
                "`t-Reordering` of PDCP; the default is infinity in acknowledged mode",
            ),
            Opt::hook("", "*", "bearer", "queue, channel, block, decoder, attempts, feedback and reordering"),
        ],
        draws: false,
        live_name: "",
    };

    /// Returns the slots from one scheduling decision of a process with feedback to the next. They comprise the offset,
    /// the block, and the feedback delay rounded up to slots.
    pub fn cycle_slots(&self) -> u64 {
        let answer = self.feedback.map_or(0, |feedback| feedback.delay_ns.div_ceil(self.slot_ns));
        u64::from(self.offset_slots) + u64::from(self.repetitions) + answer
    }

    /// Returns the share of usable slots: repetitions of each process over its cycle. Without feedback, the cycle has
    /// no feedback delay.
    pub fn utilisation(&self) -> f64 {
        let block = f64::from(self.repetitions);
        let without = f64::from(self.feedback_disabled_processes);
        let answered = (f64::from(self.processes) - without) * block / self.cycle_slots() as f64;
        (answered + without * block / (f64::from(self.offset_slots) + block)).min(1.0)
    }

    /// Returns an upper bound of the goodput in bits per second: all slots in use, no headers.
    pub(crate) fn max_goodput_bit_s(&self) -> u64 {
        let bits = u128::from(self.block_bytes) * 8 * 1_000_000_000;
        bits.div_ceil(u128::from(self.slot_ns) * u128::from(self.repetitions)) as u64
    }

    /// Validates the specification without its queue.
    pub(crate) fn validate(&self) -> Result<(), String> {
        if let Some(channel) = &self.channel {
            channel.factory().validate().map_err(|message| format!("channel: {message}"))?;
        }
        above_zero("slot_ns", self.slot_ns)?;
        above_zero("coded_bits", u64::from(self.coded_bits))?;
        above_zero("attempts", u64::from(self.attempts))?;
        if self.block_bytes < MIN_BLOCK_BYTES {
            return Err(format!("block_bytes = {} is below {MIN_BLOCK_BYTES}", self.block_bytes));
        }
        within("processes", self.processes, MAX_PROCESSES)?;
        within("repetitions", self.repetitions, MAX_REPETITIONS)?;
        if self.feedback_disabled_processes > self.processes {
            let (without, all) = (self.feedback_disabled_processes, self.processes);
            return Err(format!(
                "feedback_disabled_processes = {without} exceeds processes = {all}"
            ));
        }
        if u64::from(self.repetitions) * self.slot_ns > MAX_LOOKBACK_NS {
            return Err("the repetitions of a block take more than 1 s".into());
        }
        match &self.decoder {
            DecoderSpec::Information { margin } if *margin < 1.0 || !margin.is_finite() => {
                return Err(format!("margin = {margin} is below 1"));
            }
            DecoderSpec::Information { .. } => {}
            DecoderSpec::BlockErrors { probabilities } if probabilities.is_empty() => {
                return Err("probabilities is empty".into());
            }
            DecoderSpec::BlockErrors { probabilities } => {
                probabilities.iter().try_for_each(|p| probability("probabilities", *p))?;
            }
        }
        let acknowledged = matches!(self.rlc, RlcSpec::Acknowledged(_));
        match self.feedback {
            Some(feedback) => {
                above_zero("feedback: delay_ns", feedback.delay_ns)?;
                probability("feedback: loss", feedback.loss)?;
            }
            None if acknowledged || self.feedback_disabled_processes < self.processes => {
                return Err("HARQ feedback and RLC's acknowledged mode need feedback".into());
            }
            None => {}
        }
        if let RlcSpec::Acknowledged(spec) = self.rlc {
            above_zero("poll_retransmit_ns", spec.poll_retransmit_ns)?;
            above_zero("max_retransmissions", u64::from(spec.max_retransmissions))?;
            if spec.poll_pdus == Some(0) || spec.poll_bytes == Some(0) {
                return Err("poll_pdus and poll_bytes must be above 0, or none".into());
            }
        } else if self.reordering.is_some_and(|order| order.time_limit_ns.is_none()) {
            return Err("reordering: unacknowledged mode needs a time limit".into());
        }
        Ok(())
    }
}

fn within(key: &str, value: u32, max: u32) -> Result<(), String> {
    if (1..=max).contains(&value) {
        Ok(())
    } else {
        Err(format!("{key} = {value} is not from 1 to {max}"))
    }
}
