//! A proxy at one node, for one flow: every connection of the flow is split.

use std::collections::{BTreeMap, VecDeque};

use units::{Span, Time};

use super::pool::{Pool, header};
use super::splice::{Room, Splice};
use super::{ProxySpec, Setup};
use crate::roster::{Roster, Tally};
use crate::tcp::{self, Connection, Flags, Segment};
use crate::{Asker, Counters, Gauges, MakeController, Node, Payload, Side};

/// How long an ended connection answers late segments: TIME-WAIT (RFC 9293 section 3.3.2) of Linux's
/// length.
const TIME_WAIT: Span = Span::from_secs(60);

pub(super) const SIDES: [Side; 2] = [Side::Client, Side::Server];

/// What a proxy is made of.
pub struct Parts {
    /// Its options.
    pub spec: ProxySpec,
    /// Controllers of the sockets towards the client and towards the server.
    pub make: [MakeController; 2],
    /// The proxy before it keeps a pool of connections to this one.
    pub from_pool: Option<Pool>,
    /// The proxy after it, to which this one keeps a pool of connections; with [`Setup::Pooled`].
    pub to_pool: Option<Pool>,
}

/// A splitting proxy (RFC 3135 section 2.4) at one node, for one flow. Its ends are those towards the client (0) and
/// towards the server (1).
pub struct Proxy {
    parts: Parts,
    splices: Roster<Splice>,
    /// Slots of the splices by number.
    places: BTreeMap<u32, usize>,
    tallies: [Tally; 2],
    /// Ended connections by number, and until when they answer what comes late.
    lingering: BTreeMap<u32, (Time, Splice)>,
    /// The same instants in order; one whose number has come back meanwhile has another.
    forget: VecDeque<(Time, u32)>,
    totals: [Totals; 2],
}

/// What both sockets of a splice have counted.
fn counted(splice: &Splice) -> [Counters; 2] {
    SIDES.map(|side| splice.socket(side).map(Connection::counters).unwrap_or_default())
}

/// What the sockets of one side have left behind.
#[derive(Default)]
struct Totals {
    opened: u32,
    counters: Counters,
    gauges: Gauges,
}

impl Proxy {
    /// A proxy without connections.
    pub fn new(parts: Parts) -> Proxy {
        Proxy {
            parts,
            splices: Roster::default(),
            places: BTreeMap::new(),
            tallies: Default::default(),
            lingering: BTreeMap::new(),
            forget: VecDeque::new(),
            totals: Default::default(),
        }
    }

    /// A first segment from `side`: the connection, if one begins with it.
    fn accept(&mut self, now: Time, side: Side, segment: Segment) -> Option<Splice> {
        let Parts { spec, make, from_pool, .. } = &mut self.parts;
        let ours = &spec.client_side.tcp;
        let largest = u64::from(ours.mss_bytes.max(spec.server_side.tcp.mss_bytes));
        let room = Room { bound: spec.buffer_bytes, largest };
        let controller = &mut make[0];
        if side == Side::Client && segment.flags.has(Flags::SYN) && from_pool.is_none() {
            let held = spec.setup == Setup::Relayed;
            let client = Connection::accept(now, ours, controller(), &segment, held);
            self.totals[0].opened += 1;
            return Some(Splice::new(client, 0, held, room));
        }
        if side == Side::Client
            && let Some(pool) = from_pool
            && !segment.flags.has(Flags::RST)
        {
            let ends = [&pool.peer.tcp, ours];
            let header_bytes = header(ours.header_bytes).len();
            let controllers = [controller(), controller()];
            let (_, mut client) =
                tcp::established_pair(now, ends, controllers, pool.round_trip, segment.connection);
            client.receive(now, segment);
            self.totals[0].opened += 1;
            return Some(Splice::new(client, header_bytes, false, room));
        }
        None
    }

    /// The connection that leads on for the client's connection `number`.
    fn onward(&mut self, now: Time, number: u32) -> Connection {
        let Parts { spec, make, to_pool, .. } = &mut self.parts;
        let ours = &spec.server_side.tcp;
        self.totals[1].opened += 1;
        let controller = &mut make[1];
        match to_pool {
            None => Connection::connect(now, ours, controller(), number),
            Some(pool) => {
                let ends = [ours, &pool.peer.tcp];
                let controllers = [controller(), controller()];
                let (mut near, _) =
                    tcp::established_pair(now, ends, controllers, pool.round_trip, number);
                near.write(header(ours.header_bytes));
                near
            }
        }
    }

    /// Lets a connection work, and lets it linger if it has ended.
    fn run(&mut self, now: Time, slot: usize, out: &mut [Vec<Payload>; 2]) {
        if self.splices[slot].wants_onward() {
            let onward = self.onward(now, self.splices[slot].number());
            self.splices[slot].go_on(onward);
        }
        if !self.splices[slot].settle(now, out) {
            let wake_at = self.splices[slot].wake_at();
            self.splices.wake(slot, wake_at);
            self.tallies.iter_mut().for_each(|tally| tally.touch(slot));
            return;
        }
        let splice = self.splices.remove(slot);
        self.places.remove(&splice.number());
        for ((side, totals), tally) in
            SIDES.into_iter().zip(&mut self.totals).zip(&mut self.tallies)
        {
            tally.leave(slot);
            if let Some(socket) = splice.socket(side) {
                totals.gauges = socket.gauges();
                totals.counters.add(&socket.counters());
            }
        }
        let (until, number) = (now + TIME_WAIT, splice.number());
        self.forget.push_back((until, number));
        self.lingering.insert(number, (until, splice));
    }

    pub(super) fn forget_before(&mut self, now: Time) {
        while let Some((until, number)) = self.forget.front().copied().filter(|(at, _)| *at <= now)
        {
            self.forget.pop_front();
            if self.lingering.get(&number).is_some_and(|(at, _)| *at == until) {
                self.lingering.remove(&number);
            }
        }
    }
}

impl Node for Proxy {
    fn receive(&mut self, now: Time, end: usize, payload: Payload, out: &mut [Vec<Payload>]) {
        let Payload::Segment(segment) = payload else { return };
        let (side, out) = (SIDES[end], both(out));
        let slot = match self.places.get(&segment.connection).copied() {
            Some(slot) => {
                self.splices[slot].receive(now, side, segment);
                slot
            }
            None => {
                self.forget_before(now);
                if let Some((_, splice)) = self.lingering.get_mut(&segment.connection)
                    && !segment.flags.has(Flags::SYN)
                {
                    let before = counted(splice);
                    splice.receive(now, side, segment);
                    splice.settle(now, out);
                    self.totals.iter_mut().zip(&before).zip(&counted(splice)).for_each(
                        |((totals, before), after)| totals.counters.change(before, after),
                    );
                    return;
                }
                let Some(splice) = self.accept(now, side, segment) else { return };
                let number = splice.number();
                let slot = self.splices.push(number, splice);
                self.places.insert(number, slot);
                slot
            }
        };
        self.run(now, slot, out);
    }

    fn wake(&mut self, now: Time, out: &mut [Vec<Payload>]) {
        let out = both(out);
        let due = self.splices.take_due(now, &mut Vec::new());
        for (_, slot) in &due {
            self.splices[*slot].tick(now);
            self.run(now, *slot, out);
        }
        self.splices.done(due);
    }

    fn wake_at(&mut self) -> Time {
        self.splices.wake_at()
    }

    fn asker(&mut self) -> (Asker, usize) {
        let sockets = self.splices.iter().flat_map(|splice| {
            SIDES.into_iter().filter_map(|side| Some((splice.socket(side)?.asker(), side)))
        });
        let first = sockets.min_by_key(|(asker, _)| *asker);
        first.map_or((Asker::Transport, 0), |((_, asker), side)| (asker, side as usize))
    }

    fn opened(&self, end: usize) -> u32 {
        self.totals[end].opened
    }

    fn counters(&self, end: usize) -> Counters {
        let mut counters = self.totals[end].counters;
        let of = |slot| Some(self.splices.get(slot)?.socket(SIDES[end])?.counters());
        counters.add(&self.tallies[end].total(|slot| self.splices.fetch(slot), of));
        counters
    }

    fn gauges(&self, end: usize) -> Gauges {
        let newest = self.splices.iter().rev().find_map(|splice| splice.socket(SIDES[end]));
        newest.map_or(self.totals[end].gauges, |socket| socket.gauges())
    }

    fn waiting_bytes(&self, end: usize) -> u64 {
        self.splices.iter().map(|splice| splice.waiting_bytes(SIDES[end])).sum()
    }
}

fn both(out: &mut [Vec<Payload>]) -> &mut [Vec<Payload>; 2] {
    out.try_into().expect("a proxy has two ends")
}
