//! What a contact plan says of the way between two nodes, and what transports and layers make of it: nothing that a plan says
//! takes longer than a timer that was made for the Internet.

use contacts::{NodeId, Plan, PlanSpec};
use transport::quic::QuicSpec;
use transport::tcp::TcpSpec;
use units::{Rate, Span, Time};

use super::LayerSpec;

/// The way between two nodes: the most that a plan says of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Outlook {
    /// Light there and back.
    pub round_trip: Span,
    /// Of both directions the higher rate.
    pub rate: Rate,
    /// The longest time without a contact between two contacts.
    pub dark: Span,
}

impl Outlook {
    /// What a plan says of the way between two of its nodes; none: it is in contradiction, or no contact.
    pub fn between(plan: &PlanSpec, one: &str, other: &str) -> Option<Outlook> {
        let plan = Plan::new(plan).ok()?;
        Outlook::of(&plan, plan.node(one)?, plan.node(other)?)
    }

    /// The same of a plan that is made.
    pub fn of(plan: &Plan, one: NodeId, other: NodeId) -> Option<Outlook> {
        let mut contacts: Vec<_> = [(one, other), (other, one)]
            .iter()
            .flat_map(|(from, to)| plan.between(*from, *to))
            .map(|(_, contact)| contact)
            .collect();
        contacts.sort_by_key(|contact| (contact.start, contact.stop));
        let rate = contacts.iter().map(|contact| contact.rate).max()?;
        let light = |from, to| plan.ranges(from, to).iter().map(|range| range.owlt.nanos()).max();
        let (there, back) = (light(one, other), light(other, one));
        // A direction without a range has no contact that is used: nothing comes back there.
        let round_trip = Span(there.unwrap_or(0).saturating_add(back.unwrap_or(0)));
        let (mut dark, mut until) = (Span::ZERO, Time::MAX);
        for contact in &contacts {
            if contact.start > until {
                dark = dark.max(contact.start.since(until));
            }
            until = if until == Time::MAX { contact.stop } else { until.max(contact.stop) };
        }
        Some(Outlook { round_trip, rate, dark })
    }

    /// Bytes that two round trips carry: credit that is renewed once a round trip does not hold the sender up.
    fn window(&self) -> u64 {
        let bits = u128::from(self.rate.bits_per_second()) * u128::from(self.round_trip.nanos());
        u64::try_from(bits * 2 / 8_000_000_000).unwrap_or(u64::MAX).min(1 << 61)
    }

    /// QUIC on this way: a first RTT no shorter than light (RFC 9002 section 6.2.2 has 333 ms), an idle timeout, if there is
    /// one, that outlasts the dark and three probe timeouts (RFC 9000 section 10.1; a probe timeout is three first RTTs, RFC
    /// 9002 section 6.2.1), and credit.
    pub fn quic(&self, spec: &QuicSpec) -> QuicSpec {
        let (window, initial) = (self.window(), spec.initial_rtt_ns.max(self.round_trip.nanos()));
        let outlasts = self.dark.nanos().saturating_add(initial.saturating_mul(9));
        QuicSpec {
            initial_rtt_ns: initial,
            idle_timeout_ns: spec.idle_timeout_ns.map(|nanos| nanos.max(outlasts)),
            receive_window_bytes: spec.receive_window_bytes.max(window),
            stream_receive_window_bytes: spec.stream_receive_window_bytes.max(window),
            send_window_bytes: spec.send_window_bytes.max(window),
            ..spec.clone()
        }
    }

    /// TCP on this way: a first timeout as after one sample (RFC 6298 section 2.2: three round trips), and buffers.
    pub fn tcp(&self, spec: &TcpSpec) -> TcpSpec {
        let window = self.window();
        let initial = spec.initial_rto_ns.max(self.round_trip.nanos().saturating_mul(3));
        TcpSpec {
            initial_rto_ns: initial,
            max_rto_ns: spec.max_rto_ns.max(initial),
            receive_buffer_bytes: spec.receive_buffer_bytes.max(window),
            send_buffer_bytes: spec.send_buffer_bytes.max(window),
            ..spec.clone()
        }
    }

    /// A layer on this way: patience for the dark and four round trips, answers for three.
    pub fn layer(&self, spec: &LayerSpec) -> LayerSpec {
        let round = self.round_trip.nanos();
        let patience = self.dark.nanos().saturating_add(round.saturating_mul(4));
        let mut spec = spec.clone();
        match &mut spec {
            LayerSpec::Quiccl(quiccl) => {
                quiccl.patience_ns = quiccl.patience_ns.max(patience);
                quiccl.notice_ns = quiccl.notice_ns.max(round.saturating_mul(3));
            }
            LayerSpec::Tcpcl(tcpcl) => tcpcl.patience_ns = tcpcl.patience_ns.max(patience),
            LayerSpec::Qubicle(_) | LayerSpec::Mtcp(_) | LayerSpec::Ltp(_) => {}
        }
        spec
    }
}
