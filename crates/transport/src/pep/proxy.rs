//! A proxy at one node, for one flow. It splits every connection of the flow.

use std::collections::{BTreeMap, VecDeque};

use units::{Span, Time};

use super::connection_pool::{ConnectionPool, proxy_header};
use super::splice::{BufferLimit, Splice};
use super::{HandshakeMode, ProxySpec};
use crate::connection_table::{ConnectionTable, CounterTotals};
use crate::tcp::{self, Flags, Segment, TcpConnection};
use crate::{
    ControllerBuilder, FlowCounters, Node, Payload, Probe, SenderGauges, Side, TimerSource,
};

/// Time for which an ended connection answers late segments: TIME-WAIT (RFC 9293 section 3.3.2) with Linux's length.
const TIME_WAIT: Span = Span::from_secs(60);

pub(super) const SIDES: [Side; 2] = [Side::Client, Side::Server];

/// Configuration of a proxy.
pub struct ProxyConfig {
    /// Its options.
    pub spec: ProxySpec,
    /// Controller builders of the sockets towards the client and towards the server.
    pub build_controllers: [ControllerBuilder; 2],
    /// The pool of connections from the previous proxy to this one.
    pub inbound_pool: Option<ConnectionPool>,
    /// The pool of connections from this proxy to the next one; with [`HandshakeMode::Pooled`].
    pub outbound_pool: Option<ConnectionPool>,
}

/// A splitting proxy (RFC 3135 section 2.4) at one node, for one flow. Interface 0 is towards the client, interface 1
/// towards the server.
pub struct Proxy {
    config: ProxyConfig,
    splices: ConnectionTable<Splice>,
    /// Indices of the splices by number.
    index_by_number: BTreeMap<u32, usize>,
    counter_totals: [CounterTotals; 2],
    /// Ended connections by number, with the time until which they answer late segments.
    lingering: BTreeMap<u32, (Time, Splice)>,
    /// The same times in ascending sequence. A number that was used again has another time in `lingering`.
    lingering_expiry: VecDeque<(Time, u32)>,
    closed_totals: [ClosedSocketTotals; 2],
}

/// Returns the counters of both sockets of a splice.
fn socket_counters(splice: &Splice) -> [FlowCounters; 2] {
    SIDES.map(|side| splice.socket(side).map(TcpConnection::counters).unwrap_or_default())
}

/// Totals of the closed sockets of one side.
#[derive(Default)]
struct ClosedSocketTotals {
    opened: u32,
    counters: FlowCounters,
    gauges: SenderGauges,
}

impl Proxy {
    /// Creates a proxy without connections.
    pub fn new(parts: ProxyConfig) -> Proxy {
        Proxy {
            config: parts,
            splices: ConnectionTable::default(),
            index_by_number: BTreeMap::new(),
            counter_totals: Default::default(),
            lingering: BTreeMap::new(),
            lingering_expiry: VecDeque::new(),
            closed_totals: Default::default(),
        }
    }

    /// Handles a first segment from `side`. Returns the connection, if one begins with it.
    fn accept(&mut self, now: Time, side: Side, segment: Segment) -> Option<Splice> {
        let ProxyConfig { spec, build_controllers, inbound_pool, .. } = &mut self.config;
        let tcp_spec = &spec.client_side.tcp;
        let largest = u64::from(tcp_spec.mss_bytes.max(spec.server_side.tcp.mss_bytes));
        let limit = BufferLimit { max_bytes: spec.buffer_bytes, max_segment: largest };
        let controller = &mut build_controllers[0];
        if side == Side::Client && segment.flags.has(Flags::SYN) && inbound_pool.is_none() {
            let syn_ack_held = spec.handshake == HandshakeMode::Relayed;
            let client = TcpConnection::accept(now, tcp_spec, controller(), &segment, syn_ack_held);
            self.closed_totals[0].opened += 1;
            return Some(Splice::new(client, 0, syn_ack_held, limit));
        }
        if side == Side::Client
            && let Some(pool) = inbound_pool
            && !segment.flags.has(Flags::RST)
        {
            let ends = [&pool.peer.tcp, tcp_spec];
            let header_bytes = proxy_header(tcp_spec.header_bytes).len();
            let controllers = [controller(), controller()];
            let (_, mut client) =
                tcp::preestablished_pair(now, ends, controllers, pool.rtt, segment.connection);
            client.receive(now, segment);
            self.closed_totals[0].opened += 1;
            return Some(Splice::new(client, header_bytes, false, limit));
        }
        None
    }

    /// Creates the onward connection for the client's connection `number`.
    fn connect_onward(&mut self, now: Time, number: u32) -> TcpConnection {
        let ProxyConfig { spec, build_controllers, outbound_pool, .. } = &mut self.config;
        let tcp_spec = &spec.server_side.tcp;
        self.closed_totals[1].opened += 1;
        let controller = &mut build_controllers[1];
        match outbound_pool {
            None => TcpConnection::connect(now, tcp_spec, controller(), number),
            Some(pool) => {
                let ends = [tcp_spec, &pool.peer.tcp];
                let controllers = [controller(), controller()];
                let (mut near, _) =
                    tcp::preestablished_pair(now, ends, controllers, pool.rtt, number);
                near.write(proxy_header(tcp_spec.header_bytes));
                near
            }
        }
    }

    /// Runs a connection, and lets it linger if it has ended.
    fn poll_splice(&mut self, now: Time, index: usize, out: &mut [Vec<Payload>; 2]) {
        if self.splices[index].needs_onward() {
            let onward = self.connect_onward(now, self.splices[index].number());
            self.splices[index].set_onward(onward);
        }
        if !self.splices[index].relay(now, out) {
            let wake_at = self.splices[index].poll_at();
            self.splices.set_deadline(index, wake_at);
            self.counter_totals.iter_mut().for_each(|tally| tally.mark_stale(index));
            return;
        }
        let splice = self.splices.remove(index);
        self.index_by_number.remove(&splice.number());
        for ((side, totals), sums) in
            SIDES.into_iter().zip(&mut self.closed_totals).zip(&mut self.counter_totals)
        {
            sums.remove(index);
            if let Some(socket) = splice.socket(side) {
                totals.gauges = socket.gauges();
                totals.counters.add(&socket.counters());
            }
        }
        let (until, number) = (now + TIME_WAIT, splice.number());
        self.lingering_expiry.push_back((until, number));
        self.lingering.insert(number, (until, splice));
    }

    pub(super) fn expire_lingering(&mut self, now: Time) {
        while let Some((until, number)) =
            self.lingering_expiry.front().copied().filter(|(at, _)| *at <= now)
        {
            self.lingering_expiry.pop_front();
            if self.lingering.get(&number).is_some_and(|(at, _)| *at == until) {
                self.lingering.remove(&number);
            }
        }
    }
}

impl Node for Proxy {
    fn receive(&mut self, now: Time, interface: usize, payload: Payload, out: &mut [Vec<Payload>]) {
        let Payload::Segment(segment) = payload else { return };
        let (side, out) = (SIDES[interface], interface_outputs(out));
        let index = match self.index_by_number.get(&segment.connection).copied() {
            Some(index) => {
                self.splices[index].receive(now, side, segment);
                index
            }
            None => {
                self.expire_lingering(now);
                if let Some((_, splice)) = self.lingering.get_mut(&segment.connection)
                    && !segment.flags.has(Flags::SYN)
                {
                    let before = socket_counters(splice);
                    splice.receive(now, side, segment);
                    splice.relay(now, out);
                    self.closed_totals
                        .iter_mut()
                        .zip(&before)
                        .zip(&socket_counters(splice))
                        .for_each(|((totals, before), after)| {
                            totals.counters.apply_delta(before, after)
                        });
                    return;
                }
                let Some(splice) = self.accept(now, side, segment) else { return };
                let number = splice.number();
                let index = self.splices.push(splice);
                self.index_by_number.insert(number, index);
                index
            }
        };
        self.poll_splice(now, index, out);
    }

    fn poll(&mut self, now: Time, out: &mut [Vec<Payload>]) {
        let out = interface_outputs(out);
        let due = self.splices.take_due(now, &mut Vec::new());
        for (_, index) in &due {
            self.splices[*index].poll(now);
            self.poll_splice(now, *index, out);
        }
        self.splices.recycle_due(due);
    }

    fn poll_at(&mut self) -> Time {
        self.splices.poll_at()
    }

    fn poll_source(&mut self) -> (TimerSource, usize) {
        let sockets = self.splices.iter().flat_map(|splice| {
            SIDES.into_iter().filter_map(|side| Some((splice.socket(side)?.poll_source(), side)))
        });
        let first = sockets.min_by_key(|(asker, _)| *asker);
        first.map_or((TimerSource::Transport, 0), |((_, asker), side)| (asker, side as usize))
    }
}

impl Probe for Proxy {
    fn opened(&self, interface: usize) -> u32 {
        self.closed_totals[interface].opened
    }

    fn counters(&self, interface: usize) -> FlowCounters {
        let mut counters = self.closed_totals[interface].counters;
        let counters_of =
            |index| Some(self.splices.get(index)?.socket(SIDES[interface])?.counters());
        counters.add(&self.counter_totals[interface].total(counters_of));
        counters
    }

    fn gauges(&self, interface: usize) -> SenderGauges {
        let newest = self.splices.iter().rev().find_map(|splice| splice.socket(SIDES[interface]));
        newest.map_or(self.closed_totals[interface].gauges, |socket| socket.gauges())
    }

    fn waiting_bytes(&self, interface: usize) -> u64 {
        self.splices.iter().map(|splice| splice.waiting_bytes(SIDES[interface])).sum()
    }
}

fn interface_outputs(out: &mut [Vec<Payload>]) -> &mut [Vec<Payload>; 2] {
    out.try_into().expect("a proxy has two ends")
}
