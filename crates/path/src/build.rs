//! Makes the stages of a line from their specification.

use units::{Random, Rate, Span, Time};

use crate::validate;
use crate::{
    Change, Codel, Delay, DelayTrace, DropTail, FqCodel, Jitter, Loss, Netem, Outage, Queue,
    QueueSpec, RateService, Reorder, ServiceSpec, SpecError, Stage, StageSpec, TraceService,
    Transmitter,
};

/// The stages of the line `name`; `random` gives the stream of a purpose.
pub(crate) fn stages(
    specs: &[StageSpec],
    name: &str,
    random: impl Fn(&str) -> Random,
) -> Result<Vec<Box<dyn Stage>>, SpecError> {
    let mut stages = Vec::with_capacity(specs.len());
    for (index, spec) in specs.iter().enumerate() {
        let kind = kind(spec);
        validate::stage(spec)
            .map_err(|message| SpecError::new(format!("{name} stage {index} ({kind})"), message))?;
        // The index enters the stream's name only if a direction has several stages of a kind, so
        // that inserting another stage leaves the chance of this one as it was.
        let several = specs.iter().filter(|other| self::kind(other) == kind).count() > 1;
        let purpose = if several { format!("{kind}.{index}") } else { kind.to_owned() };
        stages.push(stage(spec, random(&purpose)));
    }
    Ok(stages)
}

/// The name of a stage's kind, as in the specification.
pub(crate) fn kind(spec: &StageSpec) -> &'static str {
    match spec {
        StageSpec::Delay { .. } => "delay",
        StageSpec::DelayTrace { .. } => "delay_trace",
        StageSpec::Transmit { .. } => "transmit",
        StageSpec::Netem { .. } => "netem",
        StageSpec::Loss { .. } => "loss",
        StageSpec::Jitter { .. } => "jitter",
        StageSpec::Reorder { .. } => "reorder",
        StageSpec::Outage { .. } => "outage",
    }
}

fn stage(spec: &StageSpec, random: Random) -> Box<dyn Stage> {
    match spec {
        StageSpec::Delay { delay_ns, .. } => Box::new(Delay::new(Span(*delay_ns))),
        StageSpec::DelayTrace { points, interpolation, repeat_ns, reorder } => {
            Box::new(DelayTrace::new(points, *interpolation, *repeat_ns, *reorder))
        }
        StageSpec::Transmit { queue, service } => match queue {
            QueueSpec::DropTail { limit } => transmitter(DropTail::new(*limit), service),
            QueueSpec::Codel { limit, target_ns, interval_ns, ecn } => {
                transmitter(Codel::new(*limit, Span(*target_ns), Span(*interval_ns), *ecn), service)
            }
            QueueSpec::FqCodel {
                limit_packets,
                flows,
                quantum_bytes,
                target_ns,
                interval_ns,
                ecn,
            } => transmitter(
                FqCodel::new(
                    *limit_packets,
                    *flows,
                    *quantum_bytes,
                    Span(*target_ns),
                    Span(*interval_ns),
                    *ecn,
                ),
                service,
            ),
        },
        StageSpec::Netem { rate_bit_s, delay_ns, limit_packets } => {
            Box::new(Netem::new(Rate(*rate_bit_s), Span(*delay_ns), *limit_packets))
        }
        StageSpec::Loss { model, .. } => Box::new(Loss::new(model, random)),
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

fn transmitter(queue: impl Queue + 'static, service: &ServiceSpec) -> Box<dyn Stage> {
    match service {
        ServiceSpec::Rate { rate_bit_s, .. } => {
            Box::new(Transmitter::new(queue, RateService::new(Rate(*rate_bit_s))))
        }
        ServiceSpec::Trace { slots_ns, slot_bytes, repeat_ns } => {
            Box::new(Transmitter::new(queue, TraceService::new(slots_ns, *slot_bytes, *repeat_ns)))
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
        _ => None,
    };
    let rate = |spec: &StageSpec| match spec {
        StageSpec::Transmit { service: ServiceSpec::Rate { rate_bit_s, .. }, .. }
        | StageSpec::Netem { rate_bit_s, .. } => Some(*rate_bit_s),
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
