//! The stages that begin with a queue: before a wire, a radio link, a 5G link, one with adaptive coding.

use units::{Rate, Span, Time};

use crate::blueprint::{Blueprint, Place, Verdict};
use crate::{
    Acm, AcmSpec, Arq, Change, Channel, ChannelSpec, Codel, DropHead, DropTail, FeedbackSpec,
    FixedChannel, FqCodel, InFlight, Limit, NrLink, NrSpec, OwnSpec, PerUser, Queue, QueueSpec,
    RadioSpec, RateService, ReorderingSpec, SchedulerSpec, Service, ServiceSpec, SlotRate, Stage,
    TraceService, TransmitSpec, Transmitter, channels, validate,
};

impl Blueprint for TransmitSpec {
    fn kind(&self) -> &'static str {
        "transmit"
    }

    fn check(&self) -> Verdict {
        validate::queue(&self.queue)?;
        validate::service(&self.service)
    }

    fn make(&self, place: &Place) -> Box<dyn Stage> {
        match (&self.queue, &self.service) {
            // What most links are, and most packets meet: a type of its own calls nothing by pointer. All other pairs
            // share one, as each such type is compiled as a whole.
            (QueueSpec::DropTail { limit }, ServiceSpec::Rate { rate_bit_s, .. }) => Box::new(
                Transmitter::new(DropTail::new(*limit), RateService::new(Rate(*rate_bit_s))),
            ),
            (queue_spec, service_spec) => Box::new(Transmitter::over(
                queue(queue_spec, place),
                service(service_spec, place),
                channel(None, place),
            )),
        }
    }

    fn own(&self) -> Option<&OwnSpec> {
        own(&self.queue)
    }

    fn takes(&self, change: &Change) -> bool {
        match change {
            Change::Rate(_) | Change::Serves(_) => matches!(self.service, ServiceSpec::Rate { .. }),
            _ => waits(&self.queue, change),
        }
    }

    fn changes(&self) -> Vec<(Time, Change)> {
        let ServiceSpec::Rate { changes, .. } = &self.service else { return Vec::new() };
        changes.iter().map(|c| (Time(c.at_ns), Change::Rate(Rate(c.rate_bit_s)))).collect()
    }

    fn most_rate_bit_s(&self) -> Option<u64> {
        match &self.service {
            ServiceSpec::Rate { rate_bit_s, .. } => Some(*rate_bit_s),
            ServiceSpec::Slots { rate_bit_s, .. } => rate_bit_s.last().copied(),
            ServiceSpec::Trace { slots_ns, slot_bytes, repeat_ns } => {
                let bits = slots_ns.len() as u128 * u128::from(*slot_bytes) * 8;
                Some((bits * 1_000_000_000).div_ceil(u128::from(*repeat_ns)) as u64)
            }
        }
    }
}

impl Blueprint for RadioSpec {
    fn kind(&self) -> &'static str {
        "radio"
    }

    fn check(&self) -> Verdict {
        validate::radio(self)
    }

    fn make(&self, place: &Place) -> Box<dyn Stage> {
        let channel = channel(self.channel.as_ref(), place);
        let arq = Arq::new(&self.link_layer, self.channel.as_ref(), place.random());
        wireless(queue(&self.queue, place), Box::new(arq), channel, self.reordering)
    }

    fn feedback(&self) -> Option<FeedbackSpec> {
        self.link_layer.feedback
    }

    fn own(&self) -> Option<&OwnSpec> {
        own(&self.queue)
    }

    fn takes(&self, change: &Change) -> bool {
        matches!(change, Change::Rate(_)) || waits(&self.queue, change)
    }

    fn most_rate_bit_s(&self) -> Option<u64> {
        Some(self.link_layer.useful_rate_bit_s())
    }
}

impl Blueprint for NrSpec {
    fn kind(&self) -> &'static str {
        "nr"
    }

    fn check(&self) -> Verdict {
        if matches!(self.queue, QueueSpec::PerUser(_)) {
            return Err("the bearer of one terminal has one queue for all".into());
        }
        validate::queue(&self.queue)?;
        NrSpec::check(self)
    }

    fn make(&self, place: &Place) -> Box<dyn Stage> {
        let channel = channel(self.channel.as_ref(), place);
        Box::new(NrLink::new(self, queue(&self.queue, place), channel, place.random()))
    }

    fn feedback(&self) -> Option<FeedbackSpec> {
        self.feedback
    }

    fn takes(&self, change: &Change) -> bool {
        waits(&self.queue, change)
    }

    fn most_rate_bit_s(&self) -> Option<u64> {
        Some(self.useful_rate_bit_s())
    }
}

impl Blueprint for AcmSpec {
    fn kind(&self) -> &'static str {
        "acm"
    }

    fn check(&self) -> Verdict {
        validate::queue(&self.queue)?;
        AcmSpec::check(self)
    }

    fn make(&self, place: &Place) -> Box<dyn Stage> {
        let channel = channels::build(&self.channel, place.line, place.seed);
        wireless(queue(&self.queue, place), Box::new(Acm::new(self)), channel, None)
    }

    fn own(&self) -> Option<&OwnSpec> {
        own(&self.queue)
    }

    fn takes(&self, change: &Change) -> bool {
        waits(&self.queue, change)
    }

    fn most_rate_bit_s(&self) -> Option<u64> {
        Some(AcmSpec::most_rate_bit_s(self))
    }
}

/// The channel at `place`; none: no noise.
fn channel(spec: Option<&ChannelSpec>, place: &Place) -> Box<dyn Channel> {
    match spec {
        Some(spec) => channels::build(spec, place.line, place.seed),
        None => Box::new(FixedChannel::PERFECT),
    }
}

/// The scheduler that a queue needs from outside.
fn own(queue: &QueueSpec) -> Option<&OwnSpec> {
    match queue {
        QueueSpec::PerUser(spec) => match &spec.scheduler {
            SchedulerSpec::Own(own) => Some(own),
            _ => None,
        },
        _ => None,
    }
}

/// Whether a queue can be changed so. Who waits is not on its way: it can be lost, not overtaken.
fn waits(queue: &QueueSpec, change: &Change) -> bool {
    match change {
        Change::Limit(Some(Limit::Packets(_))) => true,
        Change::Limit(_) => !matches!(queue, QueueSpec::FqCodel { .. }),
        Change::InFlight(fate) => *fate == InFlight::Lost,
        _ => false,
    }
}

/// A link of users on the air, which keeps what each of them had.
fn wireless(
    queue: Box<dyn Queue>,
    service: Box<dyn Service>,
    channel: Box<dyn Channel>,
    reordering: Option<ReorderingSpec>,
) -> Box<dyn Stage> {
    let transmitter = Transmitter::over(queue, service, channel).tallied();
    Box::new(match reordering {
        None => transmitter,
        Some(spec) => transmitter.reordering(spec),
    })
}

fn service(spec: &ServiceSpec, place: &Place) -> Box<dyn Service> {
    match spec {
        ServiceSpec::Rate { rate_bit_s, .. } => Box::new(RateService::new(Rate(*rate_bit_s))),
        ServiceSpec::Trace { slots_ns, slot_bytes, repeat_ns } => {
            Box::new(TraceService::new(slots_ns, *slot_bytes, *repeat_ns))
        }
        ServiceSpec::Slots { slots, rate_bit_s } => {
            Box::new(SlotRate::new(*slots, rate_bit_s, place.line, place.seed))
        }
    }
}

fn queue(spec: &QueueSpec, place: &Place) -> Box<dyn Queue> {
    match spec {
        QueueSpec::DropTail { limit } => Box::new(DropTail::new(*limit)),
        QueueSpec::DropHead { limit } => Box::new(DropHead::new(*limit)),
        QueueSpec::Codel { limit, target_ns, interval_ns, ecn } => {
            Box::new(Codel::new(*limit, Span(*target_ns), Span(*interval_ns), *ecn))
        }
        QueueSpec::FqCodel { limit_packets, flows, quantum_bytes, target_ns, interval_ns, ecn } => {
            Box::new(FqCodel::new(
                *limit_packets,
                *flows,
                *quantum_bytes,
                Span(*target_ns),
                Span(*interval_ns),
                *ecn,
            ))
        }
        QueueSpec::PerUser(spec) => Box::new(PerUser::by(spec, place.decider.take())),
    }
}
