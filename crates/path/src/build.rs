//! Makes the stages of a line from their specification.

use units::{Random, Rate, Span, Time};

use crate::channels;
use crate::validate;
use crate::{
    Acm, Arq, Change, Channel, Codel, Delay, DelayTrace, DropHead, DropTail, FixedChannel, FqCodel,
    Jitter, Line, Loss, Netem, Outage, Queue, QueueSpec, RadioSpec, RateService, Reorder,
    ReorderingSpec, Service, ServiceSpec, SlotDelay, SlotRate, SpecError, Stage, StageSpec,
    TraceService, Transmitter, Wire,
};

/// The line `name` of run `seed`, but for its scheduled changes and bounds.
pub(crate) fn line(specs: &[StageSpec], name: &str, seed: u64) -> Result<Line, SpecError> {
    let (mut stages, mut wires) = (Vec::with_capacity(specs.len()), Vec::new());
    let random = |purpose: &str| Random::named(seed, name, purpose);
    for (index, spec) in specs.iter().enumerate() {
        let kind = kind(spec);
        validate::stage(spec)
            .map_err(|message| SpecError::new(format!("{name} stage {index} ({kind})"), message))?;
        // The index enters the stream's name only if a direction has several stages of a kind, so
        // that inserting another stage leaves the chance of this one as it was.
        let several = specs.iter().filter(|other| self::kind(other) == kind).count() > 1;
        let purpose = if several { format!("{kind}.{index}") } else { kind.to_owned() };
        if let StageSpec::Radio(radio) = spec {
            if let Some(feedback) = radio.link_layer.feedback {
                let wire = Wire { from: index, to: index, spec: feedback };
                wires.push((wire, random(&format!("{purpose}.feedback"))));
            }
            let channel: Box<dyn Channel> = match &radio.channel {
                Some(channel) => channels::build(channel, name, seed),
                None => Box::new(FixedChannel::PERFECT),
            };
            stages.push(self::radio(radio, channel, random(&purpose)));
        } else if let StageSpec::Acm(spec) = spec {
            let (service, channel) = (Acm::new(spec), channels::build(&spec.channel, name, seed));
            let wireless = Wireless { service: Box::new(service), channel, reordering: None };
            stages.push(before(&spec.queue, wireless));
        } else {
            stages.push(stage(spec, name, seed, random(&purpose)));
        }
    }
    let mut line = Line::of(stages);
    for (wire, random) in wires {
        line.wire(wire, random);
    }
    Ok(line)
}

/// The name of a stage's kind, as in the specification.
pub(crate) fn kind(spec: &StageSpec) -> &'static str {
    match spec {
        StageSpec::Delay { .. } => "delay",
        StageSpec::DelayTrace { .. } => "delay_trace",
        StageSpec::SlotDelay(_) => "slot_delay",
        StageSpec::Transmit { .. } => "transmit",
        StageSpec::Radio(_) => "radio",
        StageSpec::Acm(_) => "acm",
        StageSpec::Netem { .. } => "netem",
        StageSpec::Loss { .. } => "loss",
        StageSpec::Jitter { .. } => "jitter",
        StageSpec::Reorder { .. } => "reorder",
        StageSpec::Outage { .. } => "outage",
    }
}

fn stage(spec: &StageSpec, name: &str, seed: u64, random: Random) -> Box<dyn Stage> {
    match spec {
        StageSpec::Delay { delay_ns, .. } => Box::new(Delay::new(Span(*delay_ns))),
        StageSpec::DelayTrace { points, interpolation, repeat_ns, reorder } => {
            Box::new(DelayTrace::new(points, *interpolation, *repeat_ns, *reorder))
        }
        StageSpec::SlotDelay(spec) => Box::new(SlotDelay::new(spec, name, seed)),
        StageSpec::Transmit { queue, service } => before(queue, Wired { service, name, seed }),
        StageSpec::Radio(_) | StageSpec::Acm(_) => unreachable!("made with its channel"),
        StageSpec::Netem { rate_bit_s, delay_ns, limit_packets } => {
            Box::new(Netem::new(Rate(*rate_bit_s), Span(*delay_ns), *limit_packets))
        }
        StageSpec::Loss { model, .. } => Box::new(Loss::new(model, name, seed, random)),
        StageSpec::Jitter { model, reorder } => {
            Box::new(Jitter::new(model.clone(), *reorder, random))
        }
        StageSpec::Reorder { probability, hold_ns } => {
            Box::new(Reorder::new(*probability, Span(*hold_ns), random))
        }
        StageSpec::Outage { windows, repeat_ns, hold } => {
            Box::new(Outage::new(windows, *repeat_ns, *hold))
        }
    }
}

/// What stands behind a queue. The pairs of a wired link are types of their own, so that a packet meets no call by
/// pointer between its queue and its service; a radio link, which does more for a packet, is put together of boxes.
trait Behind {
    fn queue(self, queue: impl Queue + 'static) -> Box<dyn Stage>;
}

struct Wired<'a> {
    service: &'a ServiceSpec,
    name: &'a str,
    seed: u64,
}

impl Behind for Wired<'_> {
    fn queue(self, queue: impl Queue + 'static) -> Box<dyn Stage> {
        match self.service {
            ServiceSpec::Rate { rate_bit_s, .. } => {
                Box::new(Transmitter::new(queue, RateService::new(Rate(*rate_bit_s))))
            }
            ServiceSpec::Trace { slots_ns, slot_bytes, repeat_ns } => {
                let service = TraceService::new(slots_ns, *slot_bytes, *repeat_ns);
                Box::new(Transmitter::new(queue, service))
            }
            ServiceSpec::Slots { slots, rate_bit_s } => {
                let service = SlotRate::new(*slots, rate_bit_s, self.name, self.seed);
                Box::new(Transmitter::new(queue, service))
            }
        }
    }
}

struct Wireless {
    service: Box<dyn Service>,
    channel: Box<dyn Channel>,
    reordering: Option<ReorderingSpec>,
}

impl Behind for Wireless {
    fn queue(self, queue: impl Queue + 'static) -> Box<dyn Stage> {
        let queue: Box<dyn Queue> = Box::new(queue);
        let transmitter = Transmitter::over(queue, self.service, self.channel).tallied();
        Box::new(match self.reordering {
            None => transmitter,
            Some(spec) => transmitter.reordering(spec),
        })
    }
}

fn radio(spec: &RadioSpec, channel: Box<dyn Channel>, random: Random) -> Box<dyn Stage> {
    let service = Box::new(Arq::new(&spec.link_layer, spec.channel.as_ref(), random));
    before(&spec.queue, Wireless { service, channel, reordering: spec.reordering })
}

fn before(queue: &QueueSpec, behind: impl Behind) -> Box<dyn Stage> {
    match queue {
        QueueSpec::DropTail { limit } => behind.queue(DropTail::new(*limit)),
        QueueSpec::DropHead { limit } => behind.queue(DropHead::new(*limit)),
        QueueSpec::Codel { limit, target_ns, interval_ns, ecn } => {
            behind.queue(Codel::new(*limit, Span(*target_ns), Span(*interval_ns), *ecn))
        }
        QueueSpec::FqCodel { limit_packets, flows, quantum_bytes, target_ns, interval_ns, ecn } => {
            behind.queue(FqCodel::new(
                *limit_packets,
                *flows,
                *quantum_bytes,
                Span(*target_ns),
                Span(*interval_ns),
                *ecn,
            ))
        }
    }
}

/// The scheduled changes of all stages in order of time, ties by stage.
pub(crate) fn changes(specs: &[StageSpec]) -> Vec<(Time, usize, Change)> {
    let mut all = Vec::new();
    for (index, spec) in specs.iter().enumerate() {
        match spec {
            StageSpec::Delay { changes, .. } => all.extend(
                changes.iter().map(|c| (Time(c.at_ns), index, Change::Delay(Span(c.delay_ns)))),
            ),
            StageSpec::Transmit { service: ServiceSpec::Rate { changes, .. }, .. } => all.extend(
                changes.iter().map(|c| (Time(c.at_ns), index, Change::Rate(Rate(c.rate_bit_s)))),
            ),
            StageSpec::Loss { changes, .. } => all.extend(
                changes.iter().map(|c| (Time(c.at_ns), index, Change::Loss(c.probability))),
            ),
            _ => {}
        }
    }
    all.sort_by_key(|(at, _, _)| *at);
    all
}

/// What each stage of a line cannot do better than, over all its scheduled and live changes.
#[derive(Clone, Debug, Default)]
pub(crate) struct Bounds {
    /// Smallest constant delay per stage; none: the stage has no such delay.
    delays: Vec<Option<u64>>,
    /// Largest rate per stage; none: no transmitter.
    rates: Vec<Option<u64>>,
}

impl Bounds {
    pub fn propagation_ns(&self) -> u64 {
        self.delays.iter().flatten().sum()
    }

    pub fn rate_bit_s(&self) -> Option<u64> {
        self.rates.iter().flatten().copied().min()
    }

    /// Takes a change of stage `index` into account.
    pub fn widen(&mut self, index: usize, change: &Change) {
        match change {
            Change::Delay(delay) => {
                if let Some(Some(least)) = self.delays.get_mut(index) {
                    *least = (*least).min(delay.nanos());
                }
            }
            Change::Rate(rate) => {
                if let Some(Some(most)) = self.rates.get_mut(index) {
                    *most = (*most).max(rate.bits_per_second());
                }
            }
            Change::Loss(_) | Change::Limit(_) | Change::InFlight(_) => {}
        }
    }
}

/// The bounds of a list of stages.
pub(crate) fn bounds(specs: &[StageSpec]) -> Bounds {
    let delay = |spec: &StageSpec| match spec {
        StageSpec::Delay { delay_ns, .. } | StageSpec::Netem { delay_ns, .. } => Some(*delay_ns),
        StageSpec::DelayTrace { points, .. } => points.iter().map(|(_, delay)| *delay).min(),
        StageSpec::SlotDelay(spec) => Some(spec.least_ns()),
        _ => None,
    };
    let rate = |spec: &StageSpec| match spec {
        StageSpec::Transmit { service: ServiceSpec::Rate { rate_bit_s, .. }, .. }
        | StageSpec::Netem { rate_bit_s, .. } => Some(*rate_bit_s),
        StageSpec::Transmit { service: ServiceSpec::Slots { rate_bit_s, .. }, .. } => {
            rate_bit_s.last().copied()
        }
        StageSpec::Radio(radio) => Some(radio.link_layer.useful_rate_bit_s()),
        StageSpec::Acm(acm) => Some(acm.most_rate_bit_s()),
        StageSpec::Transmit {
            service: ServiceSpec::Trace { slots_ns, slot_bytes, repeat_ns },
            ..
        } => {
            let bits = slots_ns.len() as u128 * u128::from(*slot_bytes) * 8;
            Some((bits * 1_000_000_000).div_ceil(u128::from(*repeat_ns)) as u64)
        }
        _ => None,
    };
    let mut bounds = Bounds {
        delays: specs.iter().map(delay).collect(),
        rates: specs.iter().map(rate).collect(),
    };
    for (_, index, change) in changes(specs) {
        bounds.widen(index, &change);
    }
    bounds
}
