//! HARQ: transport blocks, the processes with their retransmissions, and the decoding condition.

use std::collections::VecDeque;

use units::{RandomStream, Span, Time};

use super::rlc_tx::SduSegment;
use crate::{Channel, ChannelState, DecoderSpec, HarqCombining, NrSpec};

/// A transport block of a process.
#[derive(Clone, Debug)]
struct TransportBlock {
    /// The number of the block.
    number: u64,
    user: u32,
    segments: Vec<SduSegment>,
    /// Number of transmissions.
    attempts: u32,
    is_decoded: bool,
    /// Whether the sender has received the ACK.
    is_acknowledged: bool,
    /// Sums of Es/N0 and of mutual information, in bits, over all slots.
    es_n0: f64,
    information: f64,
}

/// A transmission that has not ended yet.
#[derive(Clone, Copy, Debug)]
struct PendingTransmission {
    process: usize,
    begin: Time,
    end: Time,
}

/// The result of a transmission.
#[derive(Debug)]
pub(super) struct HarqTransmission {
    /// The end of the transmission.
    pub end: Time,
    /// The number of the block.
    pub block_number: u64,
    /// The user of the block's first packet.
    pub user: u32,
    /// Number of transmissions of the block.
    pub attempts: u32,
    /// Whether the block is decoded.
    pub is_decoded: bool,
    /// Whether it was decoded before.
    pub is_duplicate: bool,
    /// Whether the receiver sends feedback.
    pub expects_feedback: bool,
    /// The segments in the block, if this slot decoded it or no slot will.
    pub segments: Vec<SduSegment>,
}

#[derive(Debug)]
pub(super) struct Harq {
    spec: NrSpec,
    /// Processes with feedback first.
    processes: Vec<Option<TransportBlock>>,
    /// In order of their ends.
    in_flight: VecDeque<PendingTransmission>,
    /// The times at which feedback arrives or is missed, in order.
    pending_feedback: VecDeque<(Time, usize)>,
    /// Processes with a pending retransmission.
    retransmissions: VecDeque<usize>,
    block_count: u64,
    random: RandomStream,
}

impl Harq {
    pub fn new(spec: &NrSpec, random: RandomStream) -> Harq {
        Harq {
            processes: vec![None; spec.processes as usize],
            spec: spec.clone(),
            in_flight: VecDeque::new(),
            pending_feedback: VecDeque::new(),
            retransmissions: VecDeque::new(),
            block_count: 0,
            random,
        }
    }

    /// Returns the time of the next end of a transmission or of the next feedback.
    pub fn poll_at(&self) -> Time {
        let end = self.in_flight.front().map_or(Time::MAX, |pending| pending.end);
        end.min(self.pending_feedback.front().map_or(Time::MAX, |(due, _)| *due))
    }

    /// Returns whether a retransmission is pending.
    pub fn has_retransmission(&self) -> bool {
        !self.retransmissions.is_empty()
    }

    /// Returns whether a new block can be sent.
    pub fn has_free_process(&self) -> bool {
        self.processes.iter().any(Option::is_none)
    }

    /// Starts the first queued retransmission in the slot at `slot`.
    pub fn start_retransmission(&mut self, slot: Time) {
        if let Some(process) = self.retransmissions.pop_front() {
            self.start_transmission(slot, process);
        }
    }

    /// Sends a new block in the slot at `slot`, with preference for a process with feedback.
    pub fn send_new(&mut self, slot: Time, user: u32, segments: Vec<SduSegment>) {
        let Some(process) = self.processes.iter().position(Option::is_none) else { return };
        self.block_count += 1;
        self.processes[process] = Some(TransportBlock {
            number: self.block_count,
            user,
            segments,
            attempts: 0,
            is_decoded: false,
            is_acknowledged: false,
            es_n0: 0.0,
            information: 0.0,
        });
        self.start_transmission(slot, process);
    }

    fn start_transmission(&mut self, slot: Time, process: usize) {
        let slots = |count: u32| Span(self.spec.slot_ns) * u64::from(count);
        let begin = slot + slots(self.spec.offset_slots);
        self.in_flight.push_back(PendingTransmission {
            process,
            begin,
            end: begin + slots(self.spec.repetitions),
        });
    }

    fn has_feedback(&self, process: usize) -> bool {
        process < (self.spec.processes - self.spec.feedback_disabled_processes) as usize
    }

    /// Ends a transmission due by `due` and returns its result.
    pub fn end_transmission(
        &mut self,
        due: Time,
        channel: &mut dyn Channel,
    ) -> Option<HarqTransmission> {
        let PendingTransmission { process, begin, end } =
            *self.in_flight.front().filter(|pending| pending.end <= due)?;
        self.in_flight.pop_front();
        let mut block = self.processes[process].take()?;
        let is_duplicate = block.is_decoded;
        let decoded = self.decode(begin, &mut block, channel);
        block.is_decoded = is_duplicate || decoded;
        block.attempts += 1;
        let expects_feedback = self.has_feedback(process);
        let last = !expects_feedback || block.attempts >= self.spec.attempts;
        let segments = if !is_duplicate && (decoded || last) {
            std::mem::take(&mut block.segments)
        } else {
            Vec::new()
        };
        let TransportBlock { number, user, attempts, is_decoded: decoded, .. } = block;
        if expects_feedback {
            let delay = self.spec.feedback.map_or(Span(1), |feedback| Span(feedback.delay_ns));
            self.pending_feedback.push_back((end + delay, process));
            self.processes[process] = Some(block);
        }
        Some(HarqTransmission {
            end,
            block_number: number,
            user,
            attempts,
            is_decoded: decoded,
            is_duplicate,
            expects_feedback,
            segments,
        })
    }

    /// Returns whether `block`, with the transmission from `begin`, is decoded. Every slot draws a random number.
    fn decode(
        &mut self,
        begin: Time,
        block: &mut TransportBlock,
        channel: &mut dyn Channel,
    ) -> bool {
        let mut decoded = false;
        for slot in 0..self.spec.repetitions {
            decoded |= match &self.spec.decoder {
                DecoderSpec::BlockErrors { probabilities } => {
                    let sent = (block.attempts * self.spec.repetitions + slot) as usize;
                    !self.random.chance(probabilities[sent.min(probabilities.len() - 1)])
                }
                DecoderSpec::Information { margin } => {
                    let at = begin + Span(self.spec.slot_ns) * u64::from(slot);
                    let state = channel.at(block.user, at);
                    let coded = f64::from(self.spec.coded_bits);
                    let information = state.information * coded;
                    let gathered = match self.spec.combining {
                        HarqCombining::None => information,
                        HarqCombining::Chase => {
                            block.es_n0 += state.es_n0;
                            ChannelState::from_es_n0(block.es_n0).information * coded
                        }
                        HarqCombining::Incremental => {
                            block.information += information;
                            block.information
                        }
                    };
                    gathered >= margin * f64::from(self.spec.block_bytes) * 8.0
                }
            };
        }
        decoded
    }

    /// Handles the ACK or NACK of the block with `number`.
    pub fn on_ack_nack(&mut self, number: u64, decoded: bool) {
        let mut blocks = self.processes.iter_mut().flatten();
        if let Some(block) = blocks.find(|block| block.number == number) {
            block.is_acknowledged = decoded;
        }
    }

    /// Ends a feedback wait due by `due` (frees the process or retransmits); returns whether there was one.
    pub fn finish_feedback(&mut self, due: Time) -> bool {
        let Some((_, process)) =
            self.pending_feedback.front().copied().filter(|(at, _)| *at <= due)
        else {
            return false;
        };
        self.pending_feedback.pop_front();
        let done = self.processes[process]
            .as_ref()
            .is_none_or(|block| block.is_acknowledged || block.attempts >= self.spec.attempts);
        if done {
            self.processes[process] = None;
        } else {
            self.retransmissions.push_back(process);
        }
        true
    }

    /// Drops all blocks.
    pub fn reset(&mut self) {
        self.processes.fill(None);
        self.in_flight.clear();
        self.pending_feedback.clear();
        self.retransmissions.clear();
    }
}
