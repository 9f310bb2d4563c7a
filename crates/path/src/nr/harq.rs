//! HARQ: transport blocks, the processes that send them again, and when a receiver can decode them.

use std::collections::VecDeque;

use units::{RandomStream, Span, Time};

use super::sender::Piece;
use crate::{Channel, Combining, DecoderSpec, NrSpec, Quality};

/// A transport block of a process.
#[derive(Clone, Debug)]
struct Block {
    /// Which block of all it is.
    number: u64,
    user: u32,
    pieces: Vec<Piece>,
    /// How often it was sent.
    attempts: u32,
    decoded: bool,
    /// Whether the sender has heard so.
    acknowledged: bool,
    /// Es/N0 of all its slots added up, and their mutual information, in bits.
    es_n0: f64,
    information: f64,
}

/// What has been sent and is not decided yet.
#[derive(Clone, Copy, Debug)]
struct OnAir {
    process: usize,
    begin: Time,
    end: Time,
}

/// What the end of a transmission came to.
#[derive(Debug)]
pub(super) struct Attempt {
    /// When it was.
    pub end: Time,
    /// Which block of all it is of.
    pub number: u64,
    /// Whose the first of the block's packets is.
    pub user: u32,
    /// How often the block has been sent.
    pub attempts: u32,
    /// Whether it is decoded by now.
    pub decoded: bool,
    /// Whether it was before.
    pub copy: bool,
    /// Whether the receiver answers.
    pub answered: bool,
    /// What is in the block, if that has just been decoded or never will be.
    pub pieces: Vec<Piece>,
}

#[derive(Debug)]
pub(super) struct Harq {
    spec: NrSpec,
    /// Those with feedback first.
    processes: Vec<Option<Block>>,
    /// In order of their ends.
    air: VecDeque<OnAir>,
    /// When an answer has been heard or never will be, in order.
    answers: VecDeque<(Time, usize)>,
    /// Processes whose block is to be sent again.
    again: VecDeque<usize>,
    blocks: u64,
    random: RandomStream,
}

impl Harq {
    pub fn new(spec: &NrSpec, random: RandomStream) -> Harq {
        Harq {
            processes: vec![None; spec.processes as usize],
            spec: spec.clone(),
            air: VecDeque::new(),
            answers: VecDeque::new(),
            again: VecDeque::new(),
            blocks: 0,
            random,
        }
    }

    /// When a transmission ends, or an answer is due.
    pub fn wake(&self) -> Time {
        let end = self.air.front().map_or(Time::MAX, |air| air.end);
        end.min(self.answers.front().map_or(Time::MAX, |(due, _)| *due))
    }

    /// Whether a block is to be sent again.
    pub fn has_work(&self) -> bool {
        !self.again.is_empty()
    }

    /// Whether a new block may be sent.
    pub fn is_free(&self) -> bool {
        self.processes.iter().any(Option::is_none)
    }

    /// Sends a block again in the slot at `slot`.
    pub fn send_again(&mut self, slot: Time) {
        if let Some(process) = self.again.pop_front() {
            self.put_on_air(slot, process);
        }
    }

    /// Sends a new block in the slot at `slot`, by a process with feedback if one is free.
    pub fn send(&mut self, slot: Time, user: u32, pieces: Vec<Piece>) {
        let Some(process) = self.processes.iter().position(Option::is_none) else { return };
        self.blocks += 1;
        self.processes[process] = Some(Block {
            number: self.blocks,
            user,
            pieces,
            attempts: 0,
            decoded: false,
            acknowledged: false,
            es_n0: 0.0,
            information: 0.0,
        });
        self.put_on_air(slot, process);
    }

    fn put_on_air(&mut self, slot: Time, process: usize) {
        let slots = |count: u32| Span(self.spec.slot_ns) * u64::from(count);
        let begin = slot + slots(self.spec.offset_slots);
        self.air.push_back(OnAir { process, begin, end: begin + slots(self.spec.repetitions) });
    }

    fn has_feedback(&self, process: usize) -> bool {
        process < (self.spec.processes - self.spec.without_feedback) as usize
    }

    /// A transmission that ends by `due`.
    pub fn end(&mut self, due: Time, channel: &mut dyn Channel) -> Option<Attempt> {
        let OnAir { process, begin, end } = *self.air.front().filter(|air| air.end <= due)?;
        self.air.pop_front();
        let mut block = self.processes[process].take()?;
        let copy = block.decoded;
        let decoded = self.decodes(begin, &mut block, channel);
        block.decoded = copy || decoded;
        block.attempts += 1;
        let answered = self.has_feedback(process);
        let last = !answered || block.attempts >= self.spec.attempts;
        let pieces =
            if !copy && (decoded || last) { std::mem::take(&mut block.pieces) } else { Vec::new() };
        let Block { number, user, attempts, decoded, .. } = block;
        if answered {
            let delay = self.spec.feedback.map_or(Span(1), |feedback| Span(feedback.delay_ns));
            self.answers.push_back((end + delay, process));
            self.processes[process] = Some(block);
        }
        Some(Attempt { end, number, user, attempts, decoded, copy, answered, pieces })
    }

    /// Whether `block`, with what was sent from `begin` on, can be decoded. Chance is drawn for every slot.
    fn decodes(&mut self, begin: Time, block: &mut Block, channel: &mut dyn Channel) -> bool {
        let mut decoded = false;
        for slot in 0..self.spec.repetitions {
            decoded |= match &self.spec.decoder {
                DecoderSpec::BlockErrors { probabilities } => {
                    let sent = (block.attempts * self.spec.repetitions + slot) as usize;
                    !self.random.chance(probabilities[sent.min(probabilities.len() - 1)])
                }
                DecoderSpec::Information { margin } => {
                    let at = begin + Span(self.spec.slot_ns) * u64::from(slot);
                    let quality = channel.at(block.user, at);
                    let coded = f64::from(self.spec.coded_bits);
                    let information = quality.information * coded;
                    let gathered = match self.spec.combining {
                        Combining::None => information,
                        Combining::Chase => {
                            block.es_n0 += quality.es_n0;
                            Quality::of(block.es_n0).information * coded
                        }
                        Combining::Incremental => {
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

    /// The answer to the block with `number` is heard.
    pub fn hear(&mut self, number: u64, decoded: bool) {
        let mut blocks = self.processes.iter_mut().flatten();
        if let Some(block) = blocks.find(|block| block.number == number) {
            block.acknowledged = decoded;
        }
    }

    /// An answer is due by `due`: the process is free, or its block is to be sent again. Whether there was one.
    pub fn answer(&mut self, due: Time) -> bool {
        let Some((_, process)) = self.answers.front().copied().filter(|(at, _)| *at <= due) else {
            return false;
        };
        self.answers.pop_front();
        let done = self.processes[process]
            .as_ref()
            .is_none_or(|block| block.acknowledged || block.attempts >= self.spec.attempts);
        if done {
            self.processes[process] = None;
        } else {
            self.again.push_back(process);
        }
        true
    }

    /// Everything that is under way is lost.
    pub fn reset(&mut self) {
        self.processes.fill(None);
        self.air.clear();
        self.answers.clear();
        self.again.clear();
    }
}
