//! One side of a TCP flow: its connections and their applications. An application has one stream,
//! number 0, a connection.

use std::collections::{BTreeMap, VecDeque};

use bytes::Bytes;
use cc::CongestionControl;
use units::{Ecn, Time, prefetch};

use super::{Connection, Flags, Segment, TcpSpec};
use crate::ledger::Ledger;
use crate::load::StreamReport;
use crate::roster::{Roster, Tally};
use crate::{
    App, AppEvent, Asker, Counters, Event, EventKind, Gauges, MakeApp, MakeController, Notice,
    Order, Payload, ReadEnd, Side, Streams,
};

/// Least and most that an application is asked for at once, bytes.
const LEAST_CHUNK: u64 = 32 << 10;
const MOST_CHUNK: u64 = 1 << 20;

/// TIME-WAIT: how long an end that has closed still answers (RFC 9293 section 3.6.1; Linux: 60 s).
const TIME_WAIT: units::Span = units::Span::from_secs(60);

/// A connection and its application.
struct Live {
    connection: Connection,
    app: Box<dyn App>,
    index: u32,
    wake_at: Time,
    ready: bool,
    told_finished: bool,
    /// The application has read the end of the stream.
    read_end: bool,
    closing: bool,
    stopped: bool,
    /// It has ended.
    over: bool,
    /// What the application has said since it was last taken.
    said: Vec<Notice>,
}

/// One side of a TCP flow.
pub struct Endpoint {
    side: Side,
    spec: TcpSpec,
    make_app: MakeApp,
    make_controller: MakeController,
    live: Roster<Live>,
    /// Slots of the live by number.
    places: BTreeMap<u32, usize>,
    tally: Tally,
    /// What connections in TIME-WAIT answer, and until when, by number.
    pub(super) waiting: BTreeMap<u32, (Time, Segment)>,
    /// The same instants in order; a number that has come back meanwhile has another.
    pub(super) forget: VecDeque<(Time, u32)>,
    pub(super) ledger: Ledger,
    /// What applications have said, and on which connection.
    said: Vec<(u32, Notice)>,
}

/// The stream of a connection as its application sees it.
struct OneStream<'a> {
    connection: &'a mut Connection,
    read_end: &'a mut bool,
    closing: &'a mut bool,
    stopped: &'a mut bool,
    opened: bool,
    said: &'a mut Vec<Notice>,
    appetite: usize,
}

impl Streams for OneStream<'_> {
    fn open(&mut self) -> Option<u64> {
        self.opened.then_some(0)
    }

    fn write(&mut self, stream: u64, data: Bytes) -> usize {
        if stream == 0 { self.connection.write(data) } else { 0 }
    }

    fn read(&mut self, stream: u64, take: &mut dyn FnMut(u64, &[u8])) -> ReadEnd {
        if stream != 0 {
            return ReadEnd::Reset;
        }
        while let Some((offset, data)) = self.connection.read_at() {
            take(offset, &data);
        }
        if self.connection.peer_finished() {
            *self.read_end = true;
            ReadEnd::Finished
        } else if self.connection.is_aborted() {
            ReadEnd::Reset
        } else {
            ReadEnd::Open
        }
    }

    fn finish(&mut self, _stream: u64) {
        self.connection.finish();
    }

    fn reset(&mut self, _stream: u64) {
        *self.stopped = true;
    }

    fn stop(&mut self, _stream: u64) {
        *self.stopped = true;
    }

    fn say(&mut self, notice: Notice) {
        self.said.push(notice);
    }

    fn appetite(&self) -> usize {
        self.appetite
    }

    fn close(&mut self) {
        *self.closing = true;
    }
}

impl Live {
    /// Has the memory brought that it points to.
    fn expect(&self) {
        prefetch(&*self.app);
        self.connection.expect();
    }

    fn tell(&mut self, now: Time, event: AppEvent) {
        let segment = self.connection.segment_bytes();
        let chunk = (self.connection.cwnd() / 16).clamp(LEAST_CHUNK, MOST_CHUNK);
        // A write that ends where a segment ends: no segment is made of two.
        let written = self.connection.written();
        let end = (written + chunk) / segment * segment;
        let appetite = if end > written { end - written } else { chunk };
        let mut stream = OneStream {
            connection: &mut self.connection,
            read_end: &mut self.read_end,
            closing: &mut self.closing,
            stopped: &mut self.stopped,
            opened: self.ready,
            said: &mut self.said,
            appetite: appetite as usize,
        };
        self.app.on(now, event, &mut stream);
    }

    /// Keeps enough unsent data for what window and peer let pass.
    fn refill(&mut self, now: Time) {
        while self.ready
            && !self.connection.is_finishing()
            && self.app.has_data()
            && self.connection.unsent()
                < self.connection.room() + 2 * self.connection.segment_bytes()
            && self.connection.writable() > 0
        {
            let before = self.connection.written();
            self.tell(now, AppEvent::WantData);
            if self.connection.written() == before {
                break;
            }
        }
    }

    fn run(&mut self, now: Time, ledger: &mut Ledger, out: &mut Vec<Payload>) {
        let was_reset = self.connection.was_reset() && !self.over;
        if !self.ready && (self.connection.may_send() || self.connection.is_established()) {
            self.ready = true;
            self.tell(now, AppEvent::Ready);
        }
        if self.connection.readable() > 0 || (self.connection.peer_finished() && !self.read_end) {
            self.tell(now, AppEvent::Readable(0));
        }
        if was_reset {
            self.tell(now, AppEvent::Stopped(0));
        }
        if self.app.wake_at() <= now {
            self.tell(now, AppEvent::Timer);
        }
        if self.stopped && !self.over {
            self.stopped = false;
            self.connection.reset();
        }
        if !self.connection.is_aborted() {
            self.refill(now);
            self.close_if_due();
            self.connection.transmit(now, out);
            // What left may have made room in the window for more than was there.
            while self.connection.room() >= self.connection.segment_bytes()
                && self.connection.unsent() == 0
                && self.app.has_data()
                && self.ready
            {
                let before = self.connection.written();
                self.refill(now);
                if self.connection.written() == before {
                    break;
                }
                self.connection.transmit(now, out);
            }
            let finishing = self.connection.is_finishing();
            self.close_if_due();
            let waiting = self.ready && self.app.has_data() && self.connection.writable() == 0;
            self.connection.ran_dry(waiting);
            if self.connection.is_finishing() != finishing {
                self.connection.transmit(now, out);
            }
        } else {
            self.connection.transmit(now, out);
        }
        if self.connection.is_finished() && !self.told_finished {
            self.told_finished = true;
            self.tell(now, AppEvent::Finished(0));
        }
        if self.connection.has_events() {
            let index = self.index;
            for (kind, value) in self.connection.take_events() {
                ledger.events.push(Event { time: now, connection: index, kind, value });
            }
        }
        if self.connection.is_closed() && !self.over {
            self.over = true;
            if !self.connection.is_aborted() {
                let kind = EventKind::Closed;
                ledger.events.push(Event { time: now, connection: self.index, kind, value: 0.0 });
            }
            self.tell(now, AppEvent::Closed);
        }
        self.wake_at = self.connection.wake_at().min(self.app.wake_at());
    }

    /// A closing end, and one whose peer has finished and whose application has nothing to say,
    /// send FIN after what was written.
    fn close_if_due(&mut self) {
        let answered = self.read_end && !self.app.has_data();
        if (self.closing || answered) && !self.connection.is_finishing() {
            self.connection.finish();
        }
    }
}

impl Endpoint {
    /// An endpoint with options `spec` for each of its connections.
    pub fn new(
        side: Side,
        spec: &TcpSpec,
        make_app: MakeApp,
        make_controller: MakeController,
    ) -> Endpoint {
        Endpoint {
            side,
            spec: spec.clone(),
            make_app,
            make_controller,
            live: Roster::default(),
            places: BTreeMap::new(),
            tally: Tally::default(),
            waiting: BTreeMap::new(),
            forget: VecDeque::new(),
            ledger: Ledger::default(),
            said: Vec::new(),
        }
    }

    fn adopt(&mut self, connection: Connection, index: u32, app: Option<Box<dyn App>>) -> usize {
        let slot = self.live.push(
            index,
            Live {
                connection,
                app: app.unwrap_or_else(|| (self.make_app)(index)),
                index,
                wake_at: Time::MAX,
                ready: false,
                told_finished: false,
                read_end: false,
                closing: false,
                stopped: false,
                over: false,
                said: Vec::new(),
            },
        );
        self.places.insert(index, slot);
        slot
    }

    /// Lets a connection work, and lets it go if it has ended.
    fn run(&mut self, now: Time, slot: usize, out: &mut Vec<Payload>) {
        let live = &mut self.live[slot];
        live.run(now, &mut self.ledger, out);
        if !live.said.is_empty() {
            self.said.extend(live.said.drain(..).map(|notice| (live.index, notice)));
        }
        let (wake_at, over) = (live.wake_at, live.over);
        if !over {
            self.live.wake(slot, wake_at);
            self.tally.touch(slot);
            return;
        }
        let mut live = self.live.remove(slot);
        self.places.remove(&live.index);
        self.tally.leave(slot);
        let (counters, gauges) = (live.connection.counters(), live.connection.gauges());
        self.ledger.end(live.index, &counters, gauges, live.app.streams());
        self.forget_before(now);
        if !live.connection.is_aborted() {
            let until = now + TIME_WAIT;
            self.waiting.insert(live.index, (until, live.connection.last_ack(now)));
            self.forget.push_back((until, live.index));
        }
    }

    fn forget_before(&mut self, now: Time) {
        while let Some((until, number)) =
            self.forget.front().copied().filter(|(until, _)| *until <= now)
        {
            self.forget.pop_front();
            if self.waiting.get(&number).is_some_and(|(at, _)| *at == until) {
                self.waiting.remove(&number);
            }
        }
    }

    /// Answers a segment of a connection in TIME-WAIT; whether there is one.
    fn answer(&mut self, now: Time, segment: &Segment, out: &mut Vec<Payload>) -> bool {
        self.forget_before(now);
        let Some((_, ack)) = self.waiting.get(&segment.connection) else { return false };
        // A bare ACK needs no answer (RFC 9293 section 3.10.7.4).
        if segment.flags != Flags::ACK || !segment.data.is_empty() {
            let ack = ack.clone();
            self.push(ack, out);
        }
        true
    }

    /// Sends what belongs to no connection. It counts as the flow's all the same.
    fn push(&mut self, segment: Segment, out: &mut Vec<Payload>) {
        let bytes = u64::from(segment.wire_bytes());
        let counters = &mut self.ledger.counters;
        counters.sent_packets += 1;
        counters.sent_bytes += bytes;
        counters.ack_packets += 1;
        counters.ack_bytes += bytes;
        out.push(Payload::Segment(segment));
    }

    /// A segment for no connection is answered by RST (RFC 9293 section 3.10.7.1).
    fn refuse(&mut self, segment: &Segment, out: &mut Vec<Payload>) {
        if segment.flags.has(Flags::RST) {
            return;
        }
        let mut reset = Segment::of_data(segment.acknowledgement, Bytes::new());
        reset.acknowledgement = segment.end();
        reset.window = 0;
        reset.flags = Flags::RST.with(Flags::ACK);
        reset.connection = segment.connection;
        reset.header_bytes = self.spec.header_bytes;
        reset.ecn = Ecn::NotEct;
        self.push(reset, out);
    }

    /// Connections that have not ended.
    pub fn connections(&self) -> impl Iterator<Item = &Connection> {
        self.live.iter().map(|live| &live.connection)
    }
}

impl crate::Endpoint for Endpoint {
    fn connect(
        &mut self,
        now: Time,
        app: Option<Box<dyn App>>,
        out: &mut Vec<Payload>,
    ) -> Result<(), String> {
        if self.side == Side::Server {
            return Err("a server does not connect".to_owned());
        }
        let index = self.ledger.opened;
        self.ledger.opened += 1;
        let controller = (self.make_controller)();
        let connection = Connection::connect(now, &self.spec, controller, index);
        let kind = EventKind::Start;
        self.ledger.events.push(Event { time: now, connection: index, kind, value: 0.0 });
        let slot = self.adopt(connection, index, app);
        self.run(now, slot, out);
        Ok(())
    }

    fn receive(&mut self, now: Time, payload: Payload, out: &mut Vec<Payload>) {
        let Payload::Segment(segment) = payload else { return };
        if let Some(slot) = self.places.get(&segment.connection).copied() {
            self.live[slot].connection.receive(now, segment);
            self.run(now, slot, out);
            return;
        }
        if self.answer(now, &segment, out) {
            return;
        }
        let opens = segment.flags.has(Flags::SYN) && !segment.flags.has(Flags::ACK);
        if self.side == Side::Client || !opens {
            self.refuse(&segment, out);
            return;
        }
        let index = segment.connection;
        self.ledger.opened += 1;
        let controller = (self.make_controller)();
        let connection = Connection::accept(now, &self.spec, controller, &segment, false);
        let slot = self.adopt(connection, index, None);
        self.live[slot].tell(now, AppEvent::Opened(0));
        self.run(now, slot, out);
    }

    fn is_crowd(&self) -> bool {
        self.live.is_crowd()
    }

    fn expect(&self, payload: &Payload, others: usize) {
        let Payload::Segment(segment) = payload else { return };
        let Some(live) = self.live.expected(segment.connection, others) else { return };
        if others > 0 {
            live.expect();
        }
    }

    fn wake(&mut self, now: Time, out: &mut Vec<Payload>) {
        let due = self.live.take_due(now, &mut Vec::new());
        for (_, slot) in &due {
            self.live[*slot].connection.tick(now);
            self.run(now, *slot, out);
        }
        self.live.done(due);
    }

    fn stop(&mut self, now: Time) {
        for (index, slot) in std::mem::take(&mut self.places) {
            let live = self.live.remove(slot);
            self.tally.leave(slot);
            let kind = EventKind::Lost;
            self.ledger.events.push(Event { time: now, connection: index, kind, value: 0.0 });
            let (counters, gauges) = (live.connection.counters(), live.connection.gauges());
            self.ledger.end(index, &counters, gauges, live.app.streams());
        }
        self.waiting.clear();
        self.forget.clear();
        self.said.clear();
    }

    fn say(&mut self, connection: u32, order: Order) {
        let Some(slot) = self.places.get(&connection).copied() else { return };
        let live = &mut self.live[slot];
        live.app.hear(order);
        live.wake_at = live.wake_at.min(live.app.wake_at());
        let at = live.wake_at;
        self.live.wake(slot, at);
    }

    fn take_said(&mut self, into: &mut Vec<(u32, Notice)>) {
        into.append(&mut self.said);
    }

    fn wake_at(&mut self) -> Time {
        if let Some(live) = self.live.waking() {
            live.expect();
        }
        self.live.wake_at()
    }

    fn asker(&mut self) -> (Time, Asker) {
        let first = self.live.iter().min_by_key(|live| live.wake_at);
        let Some(live) = first else { return (Time::MAX, Asker::Transport) };
        let app = (live.app.wake_at(), Asker::Application);
        live.connection.asker().min(app)
    }

    fn counters(&self) -> Counters {
        let mut counters = self.ledger.counters;
        let of = |slot| Some(self.live.get(slot)?.connection.counters());
        counters.add(&self.tally.total(|slot| self.live.fetch(slot), of));
        counters
    }

    fn gauges(&self) -> Gauges {
        self.live.last().map_or(self.ledger.gauges, |live| live.connection.gauges())
    }

    fn controller(&self) -> Option<&dyn CongestionControl> {
        self.live.last().map(|live| live.connection.controller())
    }

    fn take_events(&mut self) -> Vec<Event> {
        self.ledger.take_events()
    }

    fn opened(&self) -> u32 {
        self.ledger.opened
    }

    fn completed(&self) -> u32 {
        self.ledger.completed
    }

    fn connected_at(&self) -> Option<Time> {
        self.ledger.connected_at
    }

    fn ended_at(&self) -> Option<Time> {
        self.ledger.ended_at
    }

    fn streams(&self) -> Vec<(u32, StreamReport)> {
        let live = self.live.iter();
        self.ledger.streams(live.map(|live| (live.index, live.app.streams())))
    }
}
