//! One side of a TCP flow: its connections and their applications. An application has one stream per connection, number
//! 0.

use std::collections::{BTreeMap, VecDeque};

use bytes::Bytes;
use cc::CongestionControl;
use units::{Ecn, Time};

use super::{Flags, Segment, TcpConnection, TcpSpec};
use crate::connection_table::{ConnectionTable, CounterTotals};
use crate::endpoint_stats::EndpointStats;
use crate::perf_load::StreamReport;
use crate::{
    App, AppBuilder, AppCommand, AppEvent, AppNotification, ControllerBuilder, FlowCounters,
    FlowEvent, FlowEventKind, Payload, ReadStatus, SenderGauges, Side, Streams, TimerSource,
};

/// Minimum and maximum of one write request to an application, bytes.
const MIN_CHUNK: u64 = 32 << 10;
const MAX_CHUNK: u64 = 1 << 20;

/// TIME-WAIT: time for which a closed end still answers (RFC 9293 section 3.6.1; Linux: 60 s).
const TIME_WAIT: units::Span = units::Span::from_secs(60);

/// A connection and its application.
struct TcpConnectionEntry {
    connection: TcpConnection,
    app: Box<dyn App>,
    number: u32,
    poll_at: Time,
    ready: bool,
    finish_reported: bool,
    /// The application has read the end of the stream.
    end_read: bool,
    closing: bool,
    stopped: bool,
    /// The connection has ended.
    has_ended: bool,
    /// Notifications of the application that were not taken yet.
    notifications: Vec<AppNotification>,
}

/// One side of a TCP flow.
pub struct TcpEndpoint {
    side: Side,
    spec: TcpSpec,
    build_app: AppBuilder,
    build_controller: ControllerBuilder,
    table: ConnectionTable<TcpConnectionEntry>,
    /// Indices of the live connections by number.
    index_by_number: BTreeMap<u32, usize>,
    totals: CounterTotals,
    /// Answers of connections in TIME-WAIT and their expiry, by number.
    pub(super) time_wait: BTreeMap<u32, (Time, Segment)>,
    /// The same times in ascending sequence. A number that was used again has another time in `time_wait`.
    pub(super) time_wait_expiry: VecDeque<(Time, u32)>,
    pub(super) stats: EndpointStats,
    /// Notifications of applications, with their connections.
    notifications: Vec<(u32, AppNotification)>,
}

/// The stream of a connection, as its application uses it.
struct TcpStreamView<'a> {
    connection: &'a mut TcpConnection,
    end_read: &'a mut bool,
    closing: &'a mut bool,
    stopped: &'a mut bool,
    opened: bool,
    notifications: &'a mut Vec<AppNotification>,
    write_budget: usize,
}

impl Streams for TcpStreamView<'_> {
    fn open(&mut self) -> Option<u64> {
        self.opened.then_some(0)
    }

    fn write(&mut self, stream: u64, data: Bytes) -> usize {
        if stream == 0 { self.connection.write(data) } else { 0 }
    }

    fn read(&mut self, stream: u64, take: &mut dyn FnMut(u64, &[u8])) -> ReadStatus {
        if stream != 0 {
            return ReadStatus::Reset;
        }
        while let Some((offset, data)) = self.connection.read_at() {
            take(offset, &data);
        }
        if self.connection.peer_finished() {
            *self.end_read = true;
            ReadStatus::Finished
        } else if self.connection.is_aborted() {
            ReadStatus::Reset
        } else {
            ReadStatus::Open
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

    fn notify(&mut self, notification: AppNotification) {
        self.notifications.push(notification);
    }

    fn write_budget(&self) -> usize {
        self.write_budget
    }

    fn close(&mut self) {
        *self.closing = true;
    }
}

impl TcpConnectionEntry {
    fn dispatch(&mut self, now: Time, event: AppEvent) {
        let segment = self.connection.segment_bytes();
        let chunk = (self.connection.cwnd() / 16).clamp(MIN_CHUNK, MAX_CHUNK);
        // A write ends at the end of a segment: no segment contains two writes.
        let written = self.connection.written();
        let end = (written + chunk) / segment * segment;
        let write_budget = if end > written { end - written } else { chunk };
        let mut stream = TcpStreamView {
            connection: &mut self.connection,
            end_read: &mut self.end_read,
            closing: &mut self.closing,
            stopped: &mut self.stopped,
            opened: self.ready,
            notifications: &mut self.notifications,
            write_budget: write_budget as usize,
        };
        self.app.on_event(now, event, &mut stream);
    }

    /// Requests enough data for window and peer.
    fn refill(&mut self, now: Time) {
        while self.ready
            && !self.connection.is_finishing()
            && self.app.has_data()
            && self.connection.unsent()
                < self.connection.usable_window() + 2 * self.connection.segment_bytes()
            && self.connection.writable() > 0
        {
            let before = self.connection.written();
            self.dispatch(now, AppEvent::Writable);
            if self.connection.written() == before {
                break;
            }
        }
    }

    fn poll(&mut self, now: Time, stats: &mut EndpointStats, out: &mut Vec<Payload>) {
        let was_reset = self.connection.was_reset() && !self.has_ended;
        if !self.ready && (self.connection.may_send() || self.connection.is_established()) {
            self.ready = true;
            self.dispatch(now, AppEvent::Ready);
        }
        if self.connection.readable() > 0 || (self.connection.peer_finished() && !self.end_read) {
            self.dispatch(now, AppEvent::Readable(0));
        }
        if was_reset {
            self.dispatch(now, AppEvent::Stopped(0));
        }
        if self.app.poll_at() <= now {
            self.dispatch(now, AppEvent::Timer);
        }
        if self.stopped && !self.has_ended {
            self.stopped = false;
            self.connection.reset();
        }
        if !self.connection.is_aborted() {
            self.refill(now);
            self.close_if_due();
            self.connection.transmit(now, out);
            // Sent data may have opened the window for more data than there was.
            while self.connection.usable_window() >= self.connection.segment_bytes()
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
            self.connection.update_app_limited(waiting);
            if self.connection.is_finishing() != finishing {
                self.connection.transmit(now, out);
            }
        } else {
            self.connection.transmit(now, out);
        }
        if self.connection.is_finished() && !self.finish_reported {
            self.finish_reported = true;
            self.dispatch(now, AppEvent::Finished(0));
        }
        if self.connection.has_events() {
            let number = self.number;
            for (kind, value) in self.connection.take_events() {
                stats.events.push(FlowEvent { time: now, connection: number, kind, value });
            }
        }
        if self.connection.is_closed() && !self.has_ended {
            self.has_ended = true;
            if !self.connection.is_aborted() {
                let kind = FlowEventKind::Closed;
                stats.events.push(FlowEvent {
                    time: now,
                    connection: self.number,
                    kind,
                    value: 0.0,
                });
            }
            self.dispatch(now, AppEvent::Closed);
        }
        self.poll_at = self.connection.poll_at().min(self.app.poll_at());
    }

    /// Sends FIN after the written data, if the application closes. Also if the peer has finished and the application
    /// has no data.
    fn close_if_due(&mut self) {
        let answered = self.end_read && !self.app.has_data();
        if (self.closing || answered) && !self.connection.is_finishing() {
            self.connection.finish();
        }
    }
}

impl TcpEndpoint {
    /// Creates an endpoint with options `spec` for each of its connections.
    pub fn new(
        side: Side,
        spec: &TcpSpec,
        make_app: AppBuilder,
        make_controller: ControllerBuilder,
    ) -> TcpEndpoint {
        TcpEndpoint {
            side,
            spec: spec.clone(),
            build_app: make_app,
            build_controller: make_controller,
            table: ConnectionTable::default(),
            index_by_number: BTreeMap::new(),
            totals: CounterTotals::default(),
            time_wait: BTreeMap::new(),
            time_wait_expiry: VecDeque::new(),
            stats: EndpointStats::default(),
            notifications: Vec::new(),
        }
    }

    fn insert(
        &mut self,
        connection: TcpConnection,
        number: u32,
        app: Option<Box<dyn App>>,
    ) -> usize {
        let index = self.table.push(TcpConnectionEntry {
            connection,
            app: app.unwrap_or_else(|| (self.build_app)(number)),
            number,
            poll_at: Time::MAX,
            ready: false,
            finish_reported: false,
            end_read: false,
            closing: false,
            stopped: false,
            has_ended: false,
            notifications: Vec::new(),
        });
        self.index_by_number.insert(number, index);
        index
    }

    /// Polls a connection, and removes it if it has ended.
    fn poll_connection(&mut self, now: Time, index: usize, out: &mut Vec<Payload>) {
        let live = &mut self.table[index];
        live.poll(now, &mut self.stats, out);
        if !live.notifications.is_empty() {
            self.notifications.extend(
                live.notifications.drain(..).map(|notification| (live.number, notification)),
            );
        }
        let (wake_at, over) = (live.poll_at, live.has_ended);
        if !over {
            self.table.set_deadline(index, wake_at);
            self.totals.mark_stale(index);
            return;
        }
        let mut live = self.table.remove(index);
        self.index_by_number.remove(&live.number);
        self.totals.remove(index);
        let (counters, gauges) = (live.connection.counters(), live.connection.gauges());
        self.stats.on_connection_closed(live.number, &counters, gauges, live.app.stream_reports());
        self.expire_time_wait(now);
        if !live.connection.is_aborted() {
            let until = now + TIME_WAIT;
            self.time_wait.insert(live.number, (until, live.connection.closing_ack(now)));
            self.time_wait_expiry.push_back((until, live.number));
        }
    }

    fn expire_time_wait(&mut self, now: Time) {
        while let Some((until, number)) =
            self.time_wait_expiry.front().copied().filter(|(until, _)| *until <= now)
        {
            self.time_wait_expiry.pop_front();
            if self.time_wait.get(&number).is_some_and(|(at, _)| *at == until) {
                self.time_wait.remove(&number);
            }
        }
    }

    /// Answers a segment of a connection in TIME-WAIT. Returns whether there is one.
    fn answer_time_wait(&mut self, now: Time, segment: &Segment, out: &mut Vec<Payload>) -> bool {
        self.expire_time_wait(now);
        let Some((_, ack)) = self.time_wait.get(&segment.connection) else { return false };
        // A bare ACK needs no answer (RFC 9293 section 3.10.7.4).
        if segment.flags != Flags::ACK || !segment.data.is_empty() {
            let ack = ack.clone();
            self.push_unconnected(ack, out);
        }
        true
    }

    /// Sends a segment without a connection. The counters of the flow include it.
    fn push_unconnected(&mut self, segment: Segment, out: &mut Vec<Payload>) {
        let bytes = u64::from(segment.wire_bytes());
        let counters = &mut self.stats.counters;
        counters.sent_packets += 1;
        counters.sent_bytes += bytes;
        counters.ack_packets += 1;
        counters.ack_bytes += bytes;
        out.push(Payload::Segment(segment));
    }

    /// Answers a segment without a connection by RST (RFC 9293 section 3.10.7.1).
    fn send_reset(&mut self, segment: &Segment, out: &mut Vec<Payload>) {
        if segment.flags.has(Flags::RST) {
            return;
        }
        let mut reset = Segment::from_data(segment.acknowledgement, Bytes::new());
        reset.acknowledgement = segment.end();
        reset.window = 0;
        reset.flags = Flags::RST.with(Flags::ACK);
        reset.connection = segment.connection;
        reset.header_bytes = self.spec.header_bytes;
        reset.ecn = Ecn::NotEct;
        self.push_unconnected(reset, out);
    }

    /// Returns the connections that have not ended.
    pub fn connections(&self) -> impl Iterator<Item = &TcpConnection> {
        self.table.iter().map(|live| &live.connection)
    }
}

impl crate::Endpoint for TcpEndpoint {
    fn connect(
        &mut self,
        now: Time,
        app: Option<Box<dyn App>>,
        out: &mut Vec<Payload>,
    ) -> Result<(), String> {
        if self.side == Side::Server {
            return Err("a server does not connect".to_owned());
        }
        let number = self.stats.opened;
        self.stats.opened += 1;
        let controller = (self.build_controller)();
        let connection = TcpConnection::connect(now, &self.spec, controller, number);
        let kind = FlowEventKind::Start;
        self.stats.events.push(FlowEvent { time: now, connection: number, kind, value: 0.0 });
        let index = self.insert(connection, number, app);
        self.poll_connection(now, index, out);
        Ok(())
    }

    fn receive(&mut self, now: Time, payload: Payload, out: &mut Vec<Payload>) {
        let Payload::Segment(segment) = payload else { return };
        if let Some(index) = self.index_by_number.get(&segment.connection).copied() {
            self.table[index].connection.receive(now, segment);
            self.poll_connection(now, index, out);
            return;
        }
        if self.answer_time_wait(now, &segment, out) {
            return;
        }
        let opens = segment.flags.has(Flags::SYN) && !segment.flags.has(Flags::ACK);
        if self.side == Side::Client || !opens {
            self.send_reset(&segment, out);
            return;
        }
        let number = segment.connection;
        self.stats.opened += 1;
        let controller = (self.build_controller)();
        let connection = TcpConnection::accept(now, &self.spec, controller, &segment, false);
        let index = self.insert(connection, number, None);
        self.table[index].dispatch(now, AppEvent::StreamOpened(0));
        self.poll_connection(now, index, out);
    }

    fn poll(&mut self, now: Time, out: &mut Vec<Payload>) {
        let due = self.table.take_due(now, &mut Vec::new());
        for (_, index) in &due {
            self.table[*index].connection.poll(now);
            self.poll_connection(now, *index, out);
        }
        self.table.recycle_due(due);
    }

    fn crash(&mut self, now: Time) {
        for (number, index) in std::mem::take(&mut self.index_by_number) {
            let live = self.table.remove(index);
            self.totals.remove(index);
            let kind = FlowEventKind::Lost;
            self.stats.events.push(FlowEvent { time: now, connection: number, kind, value: 0.0 });
            let (counters, gauges) = (live.connection.counters(), live.connection.gauges());
            self.stats.on_connection_closed(number, &counters, gauges, live.app.stream_reports());
        }
        self.time_wait.clear();
        self.time_wait_expiry.clear();
        self.notifications.clear();
    }

    fn send_command(&mut self, connection: u32, command: AppCommand) {
        let Some(index) = self.index_by_number.get(&connection).copied() else { return };
        let live = &mut self.table[index];
        live.app.on_command(command);
        live.poll_at = live.poll_at.min(live.app.poll_at());
        let at = live.poll_at;
        self.table.set_deadline(index, at);
    }

    fn take_notifications(&mut self, into: &mut Vec<(u32, AppNotification)>) {
        into.append(&mut self.notifications);
    }

    fn poll_at(&mut self) -> Time {
        self.table.poll_at()
    }

    fn poll_source(&mut self) -> (Time, TimerSource) {
        let first = self.table.iter().min_by_key(|live| live.poll_at);
        let Some(live) = first else { return (Time::MAX, TimerSource::Transport) };
        let app = (live.app.poll_at(), TimerSource::Application);
        live.connection.poll_source().min(app)
    }

    fn counters(&self) -> FlowCounters {
        let mut counters = self.stats.counters;
        let counters_of = |index| Some(self.table.get(index)?.connection.counters());
        counters.add(&self.totals.total(counters_of));
        counters
    }

    fn gauges(&self) -> SenderGauges {
        self.table.newest().map_or(self.stats.gauges, |live| live.connection.gauges())
    }

    fn controller(&self) -> Option<&dyn CongestionControl> {
        self.table.newest().map(|live| live.connection.controller())
    }

    fn take_events(&mut self) -> Vec<FlowEvent> {
        self.stats.take_events()
    }

    fn opened(&self) -> u32 {
        self.stats.opened
    }

    fn completed(&self) -> u32 {
        self.stats.completed
    }

    fn connected_at(&self) -> Option<Time> {
        self.stats.connected_at
    }

    fn ended_at(&self) -> Option<Time> {
        self.stats.ended_at
    }

    fn stream_reports(&self) -> Vec<(u32, StreamReport)> {
        let live = self.table.iter();
        self.stats.stream_reports(live.map(|live| (live.number, live.app.stream_reports())))
    }
}
