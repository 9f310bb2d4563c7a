//! A link layer with retransmissions: ARQ and hybrid ARQ.

use std::collections::VecDeque;

use units::{RandomStream, Rate, Serializer, Span, Time};

use super::harq_code_design;
use crate::{
    ArqScheme, Channel, ChannelSpec, ChannelState, CodeSpec, DecoderSpec, DropReason, Feedback,
    FeedbackAction, HarqCombining, InFlightPolicy, LinkLayerSpec, RadioSpec, ServiceOutcome,
    ServiceProcess, StageOutput, StageUpdate, Transmission,
};

/// Stop-and-wait (a window of one), go-back-N and selective repeat; a fixed-rate code alone (one attempt). HARQ works
/// without and with combining, by mutual information or by fixed block error rates.
///
/// It models sender and receiver. At the end of an attempt, the receiver's state is known and the receiver sends
/// feedback. The sender uses only feedback that has arrived.
#[derive(Debug)]
pub struct Arq {
    spec: LinkLayerSpec,
    serializer: Serializer,
    /// Coded bits of a frame by attempt.
    bits_per_attempt: Vec<u32>,
    /// Unacknowledged packets, in order of their ids.
    unacked: VecDeque<UnackedPacket>,
    /// Go-back-N: the time of the sender's last go-back.
    last_go_back: Time,
    /// The last attempt: its packet, its begin, and its coded bits.
    attempt_id: u64,
    attempt_start: Time,
    attempt_bits: u64,
    random: RandomStream,
}

/// The state of an unacknowledged packet.
#[derive(Clone, Copy, Debug)]
struct UnackedPacket {
    id: u64,
    /// Attempts that the receiver accepted.
    attempts: u32,
    /// Sum of their Es/N0.
    es_n0: f64,
    /// Sum of their mutual information, in bits per frame.
    information: f64,
    is_decoded: bool,
}

impl Arq {
    /// Creates the link layer over `channel`. `random` draws block errors.
    pub fn new(spec: &LinkLayerSpec, channel: Option<&ChannelSpec>, random: RandomStream) -> Arq {
        Arq {
            bits_per_attempt: coded_bits(spec, channel),
            serializer: Serializer::new(Rate(spec.rate_bit_s)),
            spec: spec.clone(),
            unacked: VecDeque::new(),
            last_go_back: Time::ZERO,
            attempt_id: 0,
            attempt_start: Time::ZERO,
            attempt_bits: 0,
            random,
        }
    }

    fn frame_count(&self, transmission: &Transmission) -> u64 {
        u64::from(transmission.packet.bytes.max(1).div_ceil(self.spec.frame_bytes))
    }

    /// Returns the coded bits of a frame in the attempt that follows `attempts`, without overhead.
    fn bits_after(&self, attempts: u32) -> u32 {
        self.bits_per_attempt[(attempts as usize).min(self.bits_per_attempt.len() - 1)]
    }

    fn position(&self, id: u64) -> Option<usize> {
        self.unacked.binary_search_by_key(&id, |open| open.id).ok()
    }

    /// Returns whether the receiver decodes a packet from its accepted attempts.
    fn decode(&mut self, open: &UnackedPacket) -> bool {
        match &self.spec.decoder {
            DecoderSpec::Information { margin } => {
                let gathered = match self.spec.combining {
                    HarqCombining::Chase => {
                        f64::from(self.bits_after(0))
                            * ChannelState::from_es_n0(open.es_n0).information
                    }
                    HarqCombining::None | HarqCombining::Incremental => open.information,
                };
                gathered >= margin * f64::from(self.spec.frame_bytes) * 8.0
            }
            DecoderSpec::BlockErrors { probabilities } => {
                let last = probabilities.len() - 1;
                !self.random.chance(probabilities[(open.attempts as usize - 1).min(last)])
            }
        }
    }

    /// Returns the time of the next attempt without feedback.
    fn retry_deadline(&self, due: Time) -> Time {
        self.spec.timeout_ns.map_or(Time::MAX, |after| due + Span(after))
    }

    /// Returns whether the receiver accepts the unacknowledged packet at `position` now.
    fn receiver_accepts(&self, position: usize) -> bool {
        match self.spec.repeat {
            ArqScheme::Selective => true,
            ArqScheme::GoBackN => {
                self.unacked.iter().take(position).all(|before| before.is_decoded)
            }
        }
    }

    fn send_ack_nack(
        &self,
        due: Time,
        transmission: &Transmission,
        decoded: bool,
        out: &mut StageOutput,
    ) {
        if self.spec.feedback.is_some() {
            let (user, number) = (transmission.packet.user, transmission.id);
            out.send_feedback(due, Feedback::AckNack { user, id: number, is_decoded: decoded });
        }
    }
}

impl RadioSpec {
    /// Returns the coded bits of a frame in each attempt; the last value applies to all later attempts.
    ///
    /// # Errors The description of an invalid specification.
    pub fn coded_bits(&self) -> Result<Vec<u32>, String> {
        self.check()?;
        Ok(coded_bits(&self.link_layer, self.channel.as_ref()))
    }
}

/// Returns the coded bits of a frame by attempt; for Adaptive-HARQ, they are designed for `channel`.
fn coded_bits(spec: &LinkLayerSpec, channel: Option<&ChannelSpec>) -> Vec<u32> {
    match &spec.code {
        CodeSpec::Given { coded_bits } => coded_bits.clone(),
        CodeSpec::Adaptive { mother_rate, target_decoded_ratio } => {
            let information = f64::from(spec.frame_bytes) * 8.0;
            let margin = match spec.decoder {
                DecoderSpec::Information { margin } => margin,
                DecoderSpec::BlockErrors { .. } => 1.0,
            };
            let frame = harq_code_design::CodedFrame {
                required_bits: margin * information,
                min_first_bits: information,
                max_total_bits: information / mother_rate,
            };
            let delay = spec.feedback.map_or(Span::ZERO, |feedback| Span(feedback.delay_ns));
            match channel {
                Some(channel) => {
                    harq_code_design::design_coded_bits(channel, frame, target_decoded_ratio, delay)
                }
                None => vec![frame.required_bits.ceil() as u32],
            }
        }
    }
}

impl ServiceProcess for Arq {
    fn begin(&mut self, due: Time, transmission: &Transmission, channel: &mut dyn Channel) -> Time {
        let position = self.position(transmission.id).unwrap_or_else(|| {
            let number = transmission.id;
            let new = UnackedPacket {
                id: number,
                attempts: 0,
                es_n0: 0.0,
                information: 0.0,
                is_decoded: false,
            };
            self.unacked.push_back(new);
            self.unacked.len() - 1
        });
        (self.attempt_id, self.attempt_start) = (transmission.id, due);
        let before = self.unacked[position].attempts;
        let coded = self.bits_after(before);
        let first_overhead = if before == 0 { self.spec.first_overhead_bits } else { 0 };
        if self.receiver_accepts(position) {
            let state = channel.at(transmission.packet.user, due);
            let information = state.information * f64::from(coded);
            let open = &mut self.unacked[position];
            open.attempts += 1;
            match self.spec.combining {
                HarqCombining::None => (open.es_n0, open.information) = (state.es_n0, information),
                HarqCombining::Chase | HarqCombining::Incremental => {
                    open.es_n0 += state.es_n0;
                    open.information += information;
                }
            }
        }
        self.attempt_bits = u64::from(coded + self.spec.overhead_bits + first_overhead)
            * self.frame_count(transmission);
        self.serializer.begin_bits(due, self.attempt_bits)
    }

    fn end(
        &mut self,
        due: Time,
        transmission: &Transmission,
        out: &mut StageOutput,
    ) -> ServiceOutcome {
        // `None`: the ACK of an earlier attempt arrived during this one.
        let Some(position) = self.position(transmission.id) else { return ServiceOutcome::Deliver };
        let open = self.unacked[position];
        if !self.receiver_accepts(position) {
            // The sender has gone back already, or will with the previous packet's feedback. If a scheduler selected
            // this one first, there is no feedback, and the next attempt follows after the feedback delay.
            let ack_timeout = self.spec.timeout_ns.or(self.spec.feedback.map(|f| f.delay_ns));
            let at = if self.attempt_start < self.last_go_back {
                due
            } else {
                due + Span(ack_timeout.unwrap_or(0))
            };
            return ServiceOutcome::Retransmit { at };
        }
        let decoded = open.is_decoded || self.decode(&open);
        let last = self.spec.attempts.is_some_and(|max_attempts| open.attempts >= max_attempts);
        self.send_ack_nack(due, transmission, decoded, out);
        self.unacked[position].is_decoded = decoded;
        if last || self.spec.feedback.is_none() {
            self.unacked.remove(position);
            return if decoded {
                ServiceOutcome::Deliver
            } else {
                ServiceOutcome::Drop(DropReason::LinkLayer)
            };
        }
        let at = self.retry_deadline(due);
        if decoded { ServiceOutcome::Unconfirmed { at } } else { ServiceOutcome::Retransmit { at } }
    }

    fn available_at(&self) -> Time {
        let full = self.spec.window.is_some_and(|window| self.unacked.len() >= window as usize);
        if full { Time::MAX } else { Time::ZERO }
    }

    fn coded_bits(&self, _transmission: &Transmission) -> u64 {
        self.attempt_bits
    }

    fn on_feedback(&mut self, due: Time, feedback: &Feedback) -> Option<(u64, FeedbackAction)> {
        let Feedback::AckNack { id: number, is_decoded: decoded, .. } = *feedback else {
            return None;
        };
        let position = self.position(number);
        if decoded {
            self.unacked.remove(position?);
            return Some((number, FeedbackAction::Complete));
        }
        match self.spec.repeat {
            ArqScheme::Selective => {
                position.map(|_| (number, FeedbackAction::Retransmit { at: due }))
            }
            ArqScheme::GoBackN => {
                self.last_go_back = due;
                Some((number, FeedbackAction::GoBackN { at: due }))
            }
        }
    }

    fn apply_update(&mut self, _due: Time, update: &StageUpdate) {
        match update {
            StageUpdate::Rate(rate) => self.serializer.set_rate(*rate),
            StageUpdate::InFlight(InFlightPolicy::Drop) => {
                let serving = self.attempt_id;
                self.unacked.retain(|open| open.id == serving);
            }
            _ => {}
        }
    }
}
