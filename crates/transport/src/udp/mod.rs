//! Plain UDP (RFC 768): datagrams as they are given, no handshake, no congestion control. Both sides are ready when they
//! are told to begin; who calls whom was agreed on before. `pair` has applications that come and go.

mod pair;

use std::collections::VecDeque;

use bytes::{Bytes, BytesMut};
use cc::CongestionControl;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use units::{Ecn, Time};

use crate::calls::CallSide;
use crate::datagram::{Datagram, Payloads};
use crate::load::StreamReport;
use crate::{
    App, AppEvent, Asker, Counters, Event, EventKind, Gauges, MakeApp, Notice, Payload, ReadEnd,
    Side, Streams, endpoint,
};

pub use pair::Pair;

/// Options of both ends.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema, PartialEq, Eq)]
#[serde(deny_unknown_fields)]
pub struct UdpSpec {
    /// IP and UDP headers, bytes: 28 over IPv4, 48 over IPv6.
    pub header_bytes: u16,
    /// Longest payload of applications that fill packets; none: they say it themselves.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub payload_bytes: Option<u16>,
}

/// The largest payload over IPv4: a length of 16 bits, less both headers.
const MOST_BYTES: usize = 65_507;

/// One side of a flow over UDP, which has one connection: its pair of ports.
pub struct Endpoint {
    side: Side,
    header_bytes: u16,
    make_app: MakeApp,
    app: Option<Box<dyn App>>,
    wire: Wire,
    closed: bool,
    connected_at: Option<Time>,
    ended_at: Option<Time>,
    events: Vec<Event>,
}

/// What the application sends into and reads from.
#[derive(Default)]
struct Wire {
    leaving: Vec<Bytes>,
    come: VecDeque<Bytes>,
    said: Vec<Notice>,
    closing: bool,
    payloads: Payloads,
    counters: Counters,
}

impl Wire {
    /// What the application has given leaves.
    fn leave(&mut self, header_bytes: u16, out: &mut Vec<Payload>) {
        for data in self.leaving.drain(..) {
            self.counters.sent_packets += 1;
            self.counters.sent_bytes += data.len() as u64 + u64::from(header_bytes);
            let datagram = self.payloads.pack(&data, Ecn::NotEct, 0, header_bytes);
            out.push(Payload::Udp(datagram));
        }
    }

    /// What has come.
    fn come(&mut self, datagram: Datagram) {
        let data: BytesMut = self.payloads.unpack(datagram);
        self.come.push_back(data.freeze());
    }
}

/// What streams of bytes have received.
fn received(streams: &[StreamReport]) -> Counters {
    let mut counters = Counters::default();
    for stream in streams {
        counters.received_bytes += stream.received;
        counters.received_in_order_bytes += stream.received_in_order;
    }
    counters
}

impl Streams for Wire {
    fn open(&mut self) -> Option<u64> {
        None
    }

    fn send_datagram(&mut self, data: Bytes) -> bool {
        let fits = data.len() <= MOST_BYTES;
        if fits {
            self.counters.written_bytes += data.len() as u64;
            self.leaving.push(data);
        }
        fits
    }

    fn take_datagram(&mut self) -> Option<Bytes> {
        self.come.pop_front()
    }

    fn datagram_bytes(&mut self) -> Option<usize> {
        Some(MOST_BYTES)
    }

    fn write(&mut self, _stream: u64, _data: Bytes) -> usize {
        0
    }

    fn read(&mut self, _stream: u64, _take: &mut dyn FnMut(u64, &[u8])) -> ReadEnd {
        ReadEnd::Reset
    }

    fn finish(&mut self, _stream: u64) {}

    fn reset(&mut self, _stream: u64) {}

    fn stop(&mut self, _stream: u64) {}

    fn say(&mut self, notice: Notice) {
        self.said.push(notice);
    }

    fn appetite(&self) -> usize {
        0
    }

    fn close(&mut self) {
        self.closing = true;
    }
}

impl Endpoint {
    /// One side; applications that need streams find none.
    pub fn new(side: Side, spec: &UdpSpec, make_app: MakeApp) -> Endpoint {
        Endpoint {
            side,
            header_bytes: spec.header_bytes,
            make_app,
            app: None,
            wire: Wire::default(),
            closed: false,
            connected_at: None,
            ended_at: None,
            events: Vec::new(),
        }
    }

    fn note(&mut self, now: Time, kind: EventKind) {
        self.events.push(Event { time: now, connection: 0, kind, value: 0.0 });
    }

    /// Tells the application, and sends what it gave.
    fn tell(&mut self, now: Time, event: AppEvent, out: &mut Vec<Payload>) {
        let Some(app) = &mut self.app else { return };
        app.on(now, event, &mut self.wire);
        // Nobody listens to what the application says to its node.
        self.wire.said.clear();
        self.wire.leave(self.header_bytes, out);
        if self.wire.closing && !std::mem::replace(&mut self.closed, true) {
            self.ended_at = Some(now);
            self.note(now, EventKind::Closed);
        }
    }
}

impl endpoint::Endpoint for Endpoint {
    /// Begins; both sides do.
    fn connect(
        &mut self,
        now: Time,
        app: Option<Box<dyn App>>,
        out: &mut Vec<Payload>,
    ) -> Result<(), String> {
        if self.app.is_some() {
            return Err("it has begun already".to_owned());
        }
        self.app = Some(app.unwrap_or_else(|| (self.make_app)(0)));
        self.connected_at = Some(now);
        if self.side == Side::Client {
            self.note(now, EventKind::Start);
        }
        self.tell(now, AppEvent::Ready, out);
        Ok(())
    }

    fn receive(&mut self, now: Time, payload: Payload, out: &mut Vec<Payload>) {
        let Payload::Udp(datagram) = payload else { return };
        // What comes after the end was sent before it, and is heard.
        if self.app.is_none() {
            return;
        }
        self.wire.come(datagram);
        self.tell(now, AppEvent::Datagrams, out);
        // Who does not listen keeps nothing.
        self.wire.come.clear();
    }

    fn wake(&mut self, now: Time, out: &mut Vec<Payload>) {
        if self.app.as_ref().is_some_and(|app| app.wake_at() <= now) {
            self.tell(now, AppEvent::Timer, out);
        }
    }

    fn wake_at(&mut self) -> Time {
        self.app.as_ref().map_or(Time::MAX, |app| app.wake_at())
    }

    fn asker(&mut self) -> (Time, Asker) {
        (self.wake_at(), Asker::Application)
    }

    fn counters(&self) -> Counters {
        let mut counters = self.wire.counters;
        if let Some(app) = &self.app {
            counters.add(&received(app.streams()));
        }
        counters
    }

    fn gauges(&self) -> Gauges {
        Gauges::default()
    }

    fn controller(&self) -> Option<&dyn CongestionControl> {
        None
    }

    fn take_events(&mut self) -> Vec<Event> {
        std::mem::take(&mut self.events)
    }

    fn opened(&self) -> u32 {
        u32::from(self.app.is_some())
    }

    fn completed(&self) -> u32 {
        u32::from(self.closed)
    }

    fn connected_at(&self) -> Option<Time> {
        self.connected_at
    }

    fn ended_at(&self) -> Option<Time> {
        self.ended_at
    }

    fn streams(&self) -> Vec<(u32, StreamReport)> {
        let streams = self.app.iter().flat_map(|app| app.streams());
        streams.map(|stream| (0, stream.clone())).collect()
    }

    fn call(&self) -> Option<CallSide> {
        self.app.as_ref()?.call()
    }
}
