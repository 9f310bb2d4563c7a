//! Link properties from the contact plan. They raise timers and windows of transports and CLAs, so that no Internet
//! default expires before the planned delay.

use contacts::{Plan, PlanNodeId, PlanSpec};
use transport::quic::QuicSpec;
use transport::tcp::TcpSpec;
use units::{Rate, Span, Time};

use super::ClaSpec;

/// The properties of the link between two nodes: the maxima over the contact plan.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LinkProperties {
    /// The round-trip light time.
    pub round_trip: Span,
    /// The maximum rate of both directions.
    pub rate: Rate,
    /// The longest gap between two contacts.
    pub max_gap: Span,
}

impl LinkProperties {
    /// Returns the properties of the link between two nodes; `None` for an invalid plan, or without a contact.
    pub fn between(plan: &PlanSpec, one: &str, other: &str) -> Option<LinkProperties> {
        let plan = Plan::new(plan).ok()?;
        LinkProperties::from_plan(&plan, plan.node(one)?, plan.node(other)?)
    }

    /// Returns the properties from a built plan.
    pub fn from_plan(plan: &Plan, one: PlanNodeId, other: PlanNodeId) -> Option<LinkProperties> {
        let mut contacts: Vec<_> = [(one, other), (other, one)]
            .iter()
            .flat_map(|(from, to)| plan.contacts_between(*from, *to))
            .map(|(_, contact)| contact)
            .collect();
        contacts.sort_by_key(|contact| (contact.start, contact.stop));
        let rate = contacts.iter().map(|contact| contact.rate).max()?;
        let max_owlt =
            |from, to| plan.ranges(from, to).iter().map(|range| range.owlt.nanos()).max();
        let (owlt_out, owlt_in) = (max_owlt(one, other), max_owlt(other, one));
        // A direction without a range has no usable contact and adds no light time.
        let round_trip = Span(owlt_out.unwrap_or(0).saturating_add(owlt_in.unwrap_or(0)));
        let (mut max_gap, mut until) = (Span::ZERO, Time::MAX);
        for contact in &contacts {
            if contact.start > until {
                max_gap = max_gap.max(contact.start.since(until));
            }
            until = if until == Time::MAX { contact.stop } else { until.max(contact.stop) };
        }
        Some(LinkProperties { round_trip, rate, max_gap })
    }

    /// Returns the bytes of two round trips: credit is renewed once per round trip and must not limit the sender.
    fn window_bytes(&self) -> u64 {
        let bits = u128::from(self.rate.bits_per_second()) * u128::from(self.round_trip.nanos());
        u64::try_from(bits * 2 / 8_000_000_000).unwrap_or(u64::MAX).min(1 << 61)
    }

    /// Adjusts QUIC: initial RTT of at least the round-trip light time (RFC 9002 section 6.2.2 has 333 ms), and credit.
    /// An idle timeout exceeds the gap plus three probe timeouts (RFC 9000 section 10.1). A probe timeout is three
    /// initial RTTs (RFC 9002 section 6.2.1).
    pub fn adjust_quic(&self, spec: &QuicSpec) -> QuicSpec {
        let (window, initial) =
            (self.window_bytes(), spec.initial_rtt_ns.max(self.round_trip.nanos()));
        let outlasts = self.max_gap.nanos().saturating_add(initial.saturating_mul(9));
        QuicSpec {
            initial_rtt_ns: initial,
            idle_timeout_ns: spec.idle_timeout_ns.map(|nanos| nanos.max(outlasts)),
            receive_window_bytes: spec.receive_window_bytes.max(window),
            stream_receive_window_bytes: spec.stream_receive_window_bytes.max(window),
            send_window_bytes: spec.send_window_bytes.max(window),
            ..spec.clone()
        }
    }

    /// Adjusts TCP: the first timeout as after one sample (RFC 6298 section 2.2: three round trips), and buffers.
    pub fn adjust_tcp(&self, spec: &TcpSpec) -> TcpSpec {
        let window = self.window_bytes();
        let initial = spec.initial_rto_ns.max(self.round_trip.nanos().saturating_mul(3));
        TcpSpec {
            initial_rto_ns: initial,
            max_rto_ns: spec.max_rto_ns.max(initial),
            receive_buffer_bytes: spec.receive_buffer_bytes.max(window),
            send_buffer_bytes: spec.send_buffer_bytes.max(window),
            ..spec.clone()
        }
    }

    /// Adjusts a CLA: response timeout of the gap plus four round trips, acknowledgement timeout of three.
    pub fn adjust_cla(&self, spec: &ClaSpec) -> ClaSpec {
        spec.factory().adjust(self)
    }

    /// Returns the minimum response timeout of a CLA.
    pub(super) fn min_response_timeout_ns(&self) -> u64 {
        self.max_gap.nanos().saturating_add(self.round_trip.nanos().saturating_mul(4))
    }

    /// Returns the minimum acknowledgement timeout of a CLA.
    pub(super) fn min_ack_timeout_ns(&self) -> u64 {
        self.round_trip.nanos().saturating_mul(3)
    }
}
