//! Linux netem's `rate`, `delay` and `limit` in one.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use units::{Packet, Rate, Serializer, Span, Time};

use crate::blueprint::{Blueprint, Place, Verdict};
use crate::departures::Fifo;
use crate::validate::above_zero;
use crate::{Cause, Change, Cx, Gauge, Histogram, Limit, Stage};

/// Linux netem's `rate` + `delay` + `limit` in one: the limit counts the packets in the delay
/// line too.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema, PartialEq)]
#[serde(deny_unknown_fields)]
pub struct NetemSpec {
    /// Rate, in bits per second.
    pub rate_bit_s: u64,
    /// One-way delay after serialisation.
    pub delay_ns: u64,
    /// Packets in waiting room and delay line together.
    pub limit_packets: u64,
}

/// One queue that is waiting room and delay line together, as in `tc qdisc ... netem rate R delay D
/// limit N`: a packet's departure is set when it arrives, and the limit counts every packet that
/// has not departed (Linux `sch_netem.c`, `netem_enqueue`).
///
/// A change of rate, delay or limit holds for packets that arrive from then on; departures stay in order.
#[derive(Debug)]
pub struct Netem {
    link: Serializer,
    delay: Span,
    limit: u64,
    inside: Fifo,
    inside_bytes: u64,
    sent_bytes: u64,
    /// When the link has sent what arrived so far.
    busy_until: Time,
    sojourn: Histogram,
}

impl Netem {
    /// At most `limit` packets inside.
    pub fn new(rate: Rate, delay: Span, limit: u64) -> Netem {
        Netem {
            link: Serializer::new(rate),
            delay,
            limit,
            inside: Fifo::default(),
            inside_bytes: 0,
            sent_bytes: 0,
            busy_until: Time::ZERO,
            sojourn: Histogram::default(),
        }
    }
}

impl Stage for Netem {
    fn push(&mut self, due: Time, packet: Packet, cx: &mut Cx) {
        if self.inside.len() as u64 >= self.limit {
            cx.drop(due, packet, Cause::Overflow);
            return;
        }
        // As netem reckons: the delay passes first, then the link serves. For a constant delay the
        // other order gives the same departures.
        let ready = due + self.delay;
        self.sojourn.record(self.busy_until.since(ready));
        self.busy_until = self.link.begin(ready, packet.bytes);
        self.inside_bytes += u64::from(packet.bytes);
        self.inside.wait(self.busy_until, packet);
    }

    fn poll(&mut self, now: Time, cx: &mut Cx) {
        while let Some((due, packet)) = self.inside.pop(now) {
            self.inside_bytes -= u64::from(packet.bytes);
            self.sent_bytes += u64::from(packet.bytes);
            cx.emit(due, packet);
        }
    }

    fn poll_at(&self) -> Time {
        self.inside.next()
    }

    fn change(&mut self, _due: Time, change: &Change, _cx: &mut Cx) {
        match change {
            Change::Rate(rate) => self.link.set_rate(*rate),
            Change::Delay(delay) => self.delay = *delay,
            Change::Limit(Some(Limit::Packets(packets))) => self.limit = *packets,
            _ => {}
        }
    }

    /// Every packet inside counts as queued, also in the delay line, as `tc -s qdisc` shows it;
    /// bytes count as sent when they depart.
    fn gauge(&self) -> Gauge {
        Gauge {
            queued_packets: self.inside.len() as u64,
            queued_bytes: self.inside_bytes,
            sent_bytes: self.sent_bytes,
        }
    }

    fn sojourn(&self) -> Option<&Histogram> {
        Some(&self.sojourn)
    }
}

impl Blueprint for NetemSpec {
    fn kind(&self) -> &'static str {
        "netem"
    }

    fn check(&self) -> Verdict {
        above_zero("rate_bit_s", self.rate_bit_s)?;
        above_zero("limit_packets", self.limit_packets)
    }

    fn make(&self, _place: &Place) -> Box<dyn Stage> {
        Box::new(Netem::new(Rate(self.rate_bit_s), Span(self.delay_ns), self.limit_packets))
    }

    fn takes(&self, change: &Change) -> bool {
        matches!(
            change,
            Change::Rate(_) | Change::Delay(_) | Change::Limit(Some(Limit::Packets(_)))
        )
    }

    fn least_delay_ns(&self) -> Option<u64> {
        Some(self.delay_ns)
    }

    fn most_rate_bit_s(&self) -> Option<u64> {
        Some(self.rate_bit_s)
    }
}
