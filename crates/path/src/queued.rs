//! The stages that begin with a queue: before a wire, a radio link, a 5G link, one with adaptive coding.

use units::{Random, Rate, Span, Time};

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
        before(
            &self.queue,
            place,
            Wired { service: &self.service, name: place.line, seed: place.seed },
        )
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
        let service = Box::new(arq);
        before(&self.queue, place, Wireless { service, channel, reordering: self.reordering })
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
        before(&self.queue, place, Bearer { spec: self, channel, random: place.random() })
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
        before(
            &self.queue,
            place,
            Wireless { service: Box::new(Acm::new(self)), channel, reordering: None },
        )
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

struct Bearer<'a> {
    spec: &'a NrSpec,
    channel: Box<dyn Channel>,
    random: Random,
}

impl Behind for Bearer<'_> {
    fn queue(self, queue: impl Queue + 'static) -> Box<dyn Stage> {
        let queue: Box<dyn Queue> = Box::new(queue);
        Box::new(NrLink::new(self.spec, queue, self.channel, self.random))
    }
}

fn before(queue: &QueueSpec, place: &Place, behind: impl Behind) -> Box<dyn Stage> {
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
        QueueSpec::PerUser(spec) => behind.queue(PerUser::by(spec, place.decider.take())),
    }
}
