//! A link layer that sends again what its receiver could not decode: ARQ and hybrid ARQ.

use std::collections::VecDeque;

use units::{RandomStream, Rate, Serializer, Span, Time};

use super::design;
use crate::{
    Cause, Change, Channel, ChannelSpec, CodeSpec, Combining, Cx, DecoderSpec, Fate, Feedback,
    InFlight, Job, LinkLayerSpec, News, Quality, Repeat, Service,
};

/// Stop-and-wait (a window of one), go-back-N and selective repeat; a fixed-rate code alone (one attempt); HARQ without
/// and with combining, by mutual information or by given block error rates.
///
/// It models both sides: at the end of an attempt it knows what the receiver has, which answers; what the answer
/// says the sender learns when it hears it.
#[derive(Debug)]
pub struct Arq {
    spec: LinkLayerSpec,
    link: Serializer,
    /// Coded bits of a frame by attempt.
    bits: Vec<u32>,
    /// Packets that are not settled, in order of their numbers.
    open: VecDeque<Open>,
    /// Go-back-N: when the sender last went back.
    back: Time,
    /// The attempt that began last: its packet, when it did, and its bits on the air.
    serving: u64,
    began: Time,
    on_air: u64,
    random: RandomStream,
}

/// What is known of a packet that is not settled.
#[derive(Clone, Copy, Debug)]
struct Open {
    number: u64,
    /// Attempts that the receiver took.
    attempts: u32,
    /// Es/N0 of these added up.
    es_n0: f64,
    /// And their mutual information, in bits a frame.
    information: f64,
    decoded: bool,
}

impl Arq {
    /// The link layer over `channel`. `random` draws block errors.
    pub fn new(spec: &LinkLayerSpec, channel: Option<&ChannelSpec>, random: RandomStream) -> Arq {
        Arq {
            bits: coded_bits(spec, channel),
            link: Serializer::new(Rate(spec.rate_bit_s)),
            spec: spec.clone(),
            open: VecDeque::new(),
            back: Time::ZERO,
            serving: 0,
            began: Time::ZERO,
            on_air: 0,
            random,
        }
    }

    fn frames(&self, job: &Job) -> u64 {
        u64::from(job.packet.bytes.max(1).div_ceil(self.spec.frame_bytes))
    }

    /// Coded bits of a frame in the attempt that follows `attempts`, without overhead.
    fn bits_after(&self, attempts: u32) -> u32 {
        self.bits[(attempts as usize).min(self.bits.len() - 1)]
    }

    fn place(&self, number: u64) -> Option<usize> {
        self.open.binary_search_by_key(&number, |open| open.number).ok()
    }

    /// Whether the receiver decodes what it has of a packet.
    fn decodes(&mut self, open: &Open) -> bool {
        match &self.spec.decoder {
            DecoderSpec::Information { margin } => {
                let gathered = match self.spec.combining {
                    Combining::Chase => {
                        f64::from(self.bits_after(0)) * Quality::of(open.es_n0).information
                    }
                    Combining::None | Combining::Incremental => open.information,
                };
                gathered >= margin * f64::from(self.spec.frame_bytes) * 8.0
            }
            DecoderSpec::BlockErrors { probabilities } => {
                let last = probabilities.len() - 1;
                !self.random.chance(probabilities[(open.attempts as usize - 1).min(last)])
            }
        }
    }

    /// When the sender tries again without news.
    fn time_out(&self, due: Time) -> Time {
        self.spec.time_out_ns.map_or(Time::MAX, |after| due + Span(after))
    }

    /// Whether the receiver takes the open packet at `place` now.
    fn takes(&self, place: usize) -> bool {
        match self.spec.repeat {
            Repeat::Selective => true,
            Repeat::GoBackN => self.open.iter().take(place).all(|before| before.decoded),
        }
    }

    fn answer(&self, due: Time, job: &Job, decoded: bool, cx: &mut Cx) {
        if self.spec.feedback.is_some() {
            let (user, number) = (job.packet.user, job.number);
            cx.tell(due, Feedback::Attempt { user, number, decoded });
        }
    }
}

/// Coded bits of a frame by attempt; those of Adaptive-HARQ are designed on `channel`.
pub(crate) fn coded_bits(spec: &LinkLayerSpec, channel: Option<&ChannelSpec>) -> Vec<u32> {
    match &spec.code {
        CodeSpec::Given { coded_bits } => coded_bits.clone(),
        CodeSpec::Adaptive { mother_rate, decoded } => {
            let information = f64::from(spec.frame_bytes) * 8.0;
            let margin = match spec.decoder {
                DecoderSpec::Information { margin } => margin,
                DecoderSpec::BlockErrors { .. } => 1.0,
            };
            let frame = design::Frame {
                need: margin * information,
                least: information,
                most: information / mother_rate,
            };
            let delay = spec.feedback.map_or(Span::ZERO, |feedback| Span(feedback.delay_ns));
            match channel {
                Some(channel) => design::adaptive(channel, frame, decoded, delay),
                None => vec![frame.need.ceil() as u32],
            }
        }
    }
}

impl Service for Arq {
    fn begin(&mut self, due: Time, job: &Job, channel: &mut dyn Channel) -> Time {
        let place = self.place(job.number).unwrap_or_else(|| {
            let number = job.number;
            let new = Open { number, attempts: 0, es_n0: 0.0, information: 0.0, decoded: false };
            self.open.push_back(new);
            self.open.len() - 1
        });
        (self.serving, self.began) = (job.number, due);
        let before = self.open[place].attempts;
        let coded = self.bits_after(before);
        let once = if before == 0 { self.spec.first_overhead_bits } else { 0 };
        if self.takes(place) {
            let quality = channel.at(job.packet.user, due);
            let information = quality.information * f64::from(coded);
            let open = &mut self.open[place];
            open.attempts += 1;
            match self.spec.combining {
                Combining::None => (open.es_n0, open.information) = (quality.es_n0, information),
                Combining::Chase | Combining::Incremental => {
                    open.es_n0 += quality.es_n0;
                    open.information += information;
                }
            }
        }
        self.on_air = u64::from(coded + self.spec.overhead_bits + once) * self.frames(job);
        self.link.begin_bits(due, self.on_air)
    }

    fn end(&mut self, due: Time, job: &Job, cx: &mut Cx) -> Fate {
        // None: the answer to an earlier attempt came while this one was on the air.
        let Some(place) = self.place(job.number) else { return Fate::Deliver };
        let open = self.open[place];
        if !self.takes(place) {
            // The sender has gone back already, or will when it hears of the one before; if a scheduler has put this one
            // before that, nobody answers, and its turn comes after the time of an answer.
            let patience = self.spec.time_out_ns.or(self.spec.feedback.map(|f| f.delay_ns));
            let at = if self.began < self.back { due } else { due + Span(patience.unwrap_or(0)) };
            return Fate::Again { at };
        }
        let decoded = open.decoded || self.decodes(&open);
        let last = self.spec.attempts.is_some_and(|most| open.attempts >= most);
        self.answer(due, job, decoded, cx);
        self.open[place].decoded = decoded;
        if last || self.spec.feedback.is_none() {
            self.open.remove(place);
            return if decoded { Fate::Deliver } else { Fate::Drop(Cause::Link) };
        }
        let at = self.time_out(due);
        if decoded { Fate::Unconfirmed { at } } else { Fate::Again { at } }
    }

    fn free_at(&self) -> Time {
        let full = self.spec.window.is_some_and(|window| self.open.len() >= window as usize);
        if full { Time::MAX } else { Time::ZERO }
    }

    fn bits(&self, _job: &Job) -> u64 {
        self.on_air
    }

    fn feedback(&mut self, due: Time, feedback: &Feedback) -> Option<(u64, News)> {
        let Feedback::Attempt { number, decoded, .. } = *feedback else { return None };
        let place = self.place(number);
        if decoded {
            self.open.remove(place?);
            return Some((number, News::Done));
        }
        match self.spec.repeat {
            Repeat::Selective => place.map(|_| (number, News::Again { at: due })),
            Repeat::GoBackN => {
                self.back = due;
                Some((number, News::GoBack { at: due }))
            }
        }
    }

    fn change(&mut self, _due: Time, change: &Change) {
        match change {
            Change::Rate(rate) => self.link.set_rate(*rate),
            Change::InFlight(InFlight::Lost) => {
                let serving = self.serving;
                self.open.retain(|open| open.number == serving);
            }
            _ => {}
        }
    }
}
