//! The serialisable specification of a 5G link (New Radio): transport blocks in slots, HARQ processes, RLC and PDCP.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::validate::{above_zero, probability};
use crate::{ChannelSpec, Combining, DecoderSpec, FeedbackSpec, QueueSpec};

/// What a transport block has room for at least: the headers of a segment, and some of it.
const LEAST_BLOCK: u32 = 16;
/// `nrofHARQ-ProcessesForPDSCH` of Release 17 (TS 38.331): at most 32.
const MOST_PROCESSES: u32 = 32;
/// `pdsch-AggregationFactor` (TS 38.331): at most 8.
const MOST_REPETITIONS: u32 = 8;
/// How far back a channel can be asked.
const MOST_OFFSET_NS: u64 = 1_000_000_000;

/// A queue before a 5G link of one bearer.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema, PartialEq)]
#[serde(deny_unknown_fields)]
pub struct NrSpec {
    /// The queue.
    pub queue: QueueSpec,
    /// The channel; none: no noise, for a decoder that knows its block error rates.
    pub channel: Option<ChannelSpec>,
    /// Length of a slot, which has one transport block.
    pub slot_ns: u64,
    /// Bytes of a transport block, headers of MAC, RLC and PDCP included.
    pub block_bytes: u32,
    /// Coded bits of a slot.
    pub coded_bits: u32,
    /// When a receiver can decode a block; block error rates count slots, repetitions included.
    pub decoder: DecoderSpec,
    /// What becomes of slots that were not enough.
    pub combining: Combining,
    /// HARQ processes.
    pub processes: u32,
    /// Of these, those whose feedback is disabled: their blocks are sent once.
    pub without_feedback: u32,
    /// Slots one after the other in which a block is sent each time (slot aggregation, blind repetition).
    pub repetitions: u32,
    /// How often a block of the other processes is sent at most.
    pub attempts: u32,
    /// Slots from the decision about a block to its first one.
    pub offset_slots: u32,
    /// The receiver's answers: of HARQ, and status reports of RLC. None: it gives none.
    pub feedback: Option<FeedbackSpec>,
    /// What RLC does about blocks that are lost.
    pub rlc: RlcSpec,
    /// The order in which PDCP hands packets on; none: as they come.
    pub order: Option<OrderSpec>,
}

/// The mode of RLC (TS 38.322).
#[derive(Clone, Copy, Debug, Serialize, Deserialize, JsonSchema, PartialEq, Eq)]
#[serde(tag = "kind", rename_all = "snake_case", deny_unknown_fields)]
pub enum RlcSpec {
    /// UM: what is lost is lost.
    Unacknowledged,
    /// AM: what is lost is sent again.
    Acknowledged(AcknowledgedSpec),
}

/// RLC's acknowledged mode (TS 38.322 section 7).
#[derive(Clone, Copy, Debug, Serialize, Deserialize, JsonSchema, PartialEq, Eq)]
#[serde(deny_unknown_fields)]
pub struct AcknowledgedSpec {
    /// `pollPDU`; none: infinity.
    pub poll_pdus: Option<u32>,
    /// `pollByte`; none: infinity.
    pub poll_bytes: Option<u64>,
    /// `t-PollRetransmit`.
    pub poll_retransmit_ns: u64,
    /// `t-Reassembly`.
    pub reassembly_ns: u64,
    /// `t-StatusProhibit`.
    pub status_prohibit_ns: u64,
    /// `maxRetxThreshold`.
    pub most_retransmissions: u32,
}

/// Delivery in order (TS 38.323 section 5.2.2).
#[derive(Clone, Copy, Debug, Serialize, Deserialize, JsonSchema, PartialEq, Eq)]
#[serde(deny_unknown_fields)]
pub struct OrderSpec {
    /// `t-Reordering`; none: infinity.
    pub time_limit_ns: Option<u64>,
}

impl NrSpec {
    /// Slots from the decision about a block of a process with feedback to the next one of that process: the offset, the
    /// block, and the answer up to the next slot.
    pub fn cycle_slots(&self) -> u64 {
        let answer = self.feedback.map_or(0, |feedback| feedback.delay_ns.div_ceil(self.slot_ns));
        u64::from(self.offset_slots) + u64::from(self.repetitions) + answer
    }

    /// The share of slots that can be used: repetitions of each process over its cycle, which has no answer in it without
    /// feedback.
    pub fn utilisation(&self) -> f64 {
        let block = f64::from(self.repetitions);
        let without = f64::from(self.without_feedback);
        let answered = (f64::from(self.processes) - without) * block / self.cycle_slots() as f64;
        (answered + without * block / (f64::from(self.offset_slots) + block)).min(1.0)
    }

    /// Bits of packets that it can never carry more of in a second: every slot used, no headers.
    pub(crate) fn useful_rate_bit_s(&self) -> u64 {
        let bits = u128::from(self.block_bytes) * 8 * 1_000_000_000;
        bits.div_ceil(u128::from(self.slot_ns) * u128::from(self.repetitions)) as u64
    }

    /// Says what is wrong with it, but for its queue.
    pub(crate) fn check(&self) -> Result<(), String> {
        if let Some(channel) = &self.channel {
            channel.check().map_err(|message| format!("channel: {message}"))?;
        }
        above_zero("slot_ns", self.slot_ns)?;
        above_zero("coded_bits", u64::from(self.coded_bits))?;
        above_zero("attempts", u64::from(self.attempts))?;
        if self.block_bytes < LEAST_BLOCK {
            return Err(format!("block_bytes = {} is below {LEAST_BLOCK}", self.block_bytes));
        }
        within("processes", self.processes, MOST_PROCESSES)?;
        within("repetitions", self.repetitions, MOST_REPETITIONS)?;
        if self.without_feedback > self.processes {
            let (without, all) = (self.without_feedback, self.processes);
            return Err(format!("without_feedback = {without} of {all} processes"));
        }
        if u64::from(self.repetitions) * self.slot_ns > MOST_OFFSET_NS {
            return Err("a block's slots take more than a second".into());
        }
        match &self.decoder {
            DecoderSpec::Information { margin } if *margin < 1.0 || !margin.is_finite() => {
                return Err(format!("margin = {margin} is not at least 1"));
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
            None if acknowledged || self.without_feedback < self.processes => {
                return Err("HARQ feedback and RLC's acknowledged mode need feedback".into());
            }
            None => {}
        }
        if let RlcSpec::Acknowledged(spec) = self.rlc {
            above_zero("poll_retransmit_ns", spec.poll_retransmit_ns)?;
            above_zero("most_retransmissions", u64::from(spec.most_retransmissions))?;
            if spec.poll_pdus == Some(0) || spec.poll_bytes == Some(0) {
                return Err("poll_pdus and poll_bytes are above 0, or none".into());
            }
        } else if self.order.is_some_and(|order| order.time_limit_ns.is_none()) {
            return Err(
                "order: in unacknowledged mode nobody can wait for ever for what is lost".into()
            );
        }
        Ok(())
    }
}

fn within(key: &str, value: u32, most: u32) -> Result<(), String> {
    if (1..=most).contains(&value) {
        Ok(())
    } else {
        Err(format!("{key} = {value} is not from 1 to {most}"))
    }
}
