//! Plain UDP (RFC 768): unchanged datagrams, no handshake, no congestion control. Both sides are ready at their start;
//! the call was agreed on before. `peer` supports applications that end and restart.

mod peer;

use std::collections::VecDeque;

use bytes::{Bytes, BytesMut};
use cc::CongestionControl;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use units::{Ecn, Time};

use crate::datagram::{Datagram, PayloadBuffers};
use crate::media::MediaReport;
use crate::perf_load::StreamReport;
use crate::{
    App, AppBuilder, AppEvent, AppNotification, FlowCounters, FlowEvent, FlowEventKind, Payload,
    ReadStatus, SenderGauges, Side, Streams, TimerSource, endpoint,
};

pub use peer::UdpPeer;

/// Options of both ends.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema, PartialEq, Eq)]
#[serde(deny_unknown_fields)]
pub struct UdpSpec {
    /// IP and UDP headers, bytes: 28 over IPv4, 48 over IPv6.
    pub header_bytes: u16,
    /// Longest payload of applications that fill packets; `None`: the applications define it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub payload_bytes: Option<u16>,
}

/// The largest payload over IPv4: a length of 16 bits, less both headers.
const MAX_PAYLOAD_BYTES: usize = 65_507;

/// One side of a flow over UDP. It has one connection: its pair of ports.
pub struct UdpEndpoint {
    side: Side,
    header_bytes: u16,
    build_app: AppBuilder,
    app: Option<Box<dyn App>>,
    streams: UdpStreams,
    closed: bool,
    connected_at: Option<Time>,
    ended_at: Option<Time>,
    events: Vec<FlowEvent>,
}

/// The streams of the application: datagrams in both directions.
#[derive(Default)]
struct UdpStreams {
    outgoing: Vec<Bytes>,
    incoming: VecDeque<Bytes>,
    notifications: Vec<AppNotification>,
    closing: bool,
    payloads: PayloadBuffers,
    counters: FlowCounters,
}

impl UdpStreams {
    /// Sends the datagrams of the application.
    fn flush(&mut self, header_bytes: u16, out: &mut Vec<Payload>) {
        for data in self.outgoing.drain(..) {
            self.counters.sent_packets += 1;
            self.counters.sent_bytes += data.len() as u64 + u64::from(header_bytes);
            let datagram = self.payloads.pack(&data, Ecn::NotEct, 0, header_bytes);
            out.push(Payload::Udp(datagram));
        }
    }

    /// Stores a datagram that has arrived.
    fn receive(&mut self, datagram: Datagram) {
        let data: BytesMut = self.payloads.unpack(datagram);
        self.incoming.push_back(data.freeze());
    }
}

/// Returns the counters of received byte streams.
fn received_counters(streams: &[StreamReport]) -> FlowCounters {
    let mut counters = FlowCounters::default();
    for stream in streams {
        counters.received_bytes += stream.received;
        counters.received_in_order_bytes += stream.received_in_order;
    }
    counters
}

impl Streams for UdpStreams {
    fn open(&mut self) -> Option<u64> {
        None
    }

    fn send_datagram(&mut self, data: Bytes) -> bool {
        let fits = data.len() <= MAX_PAYLOAD_BYTES;
        if fits {
            self.counters.written_bytes += data.len() as u64;
            self.outgoing.push(data);
        }
        fits
    }

    fn take_datagram(&mut self) -> Option<Bytes> {
        self.incoming.pop_front()
    }

    fn max_datagram_bytes(&mut self) -> Option<usize> {
        Some(MAX_PAYLOAD_BYTES)
    }

    fn write(&mut self, _stream: u64, _data: Bytes) -> usize {
        0
    }

    fn read(&mut self, _stream: u64, _take: &mut dyn FnMut(u64, &[u8])) -> ReadStatus {
        ReadStatus::Reset
    }

    fn finish(&mut self, _stream: u64) {}

    fn reset(&mut self, _stream: u64) {}

    fn stop(&mut self, _stream: u64) {}

    fn notify(&mut self, notification: AppNotification) {
        self.notifications.push(notification);
    }

    fn write_budget(&self) -> usize {
        0
    }

    fn close(&mut self) {
        self.closing = true;
    }
}

impl UdpEndpoint {
    /// Creates one side. Applications that need streams find none.
    pub fn new(side: Side, spec: &UdpSpec, make_app: AppBuilder) -> UdpEndpoint {
        UdpEndpoint {
            side,
            header_bytes: spec.header_bytes,
            build_app: make_app,
            app: None,
            streams: UdpStreams::default(),
            closed: false,
            connected_at: None,
            ended_at: None,
            events: Vec::new(),
        }
    }

    fn record_event(&mut self, now: Time, kind: FlowEventKind) {
        self.events.push(FlowEvent { time: now, connection: 0, kind, value: 0.0 });
    }

    /// Passes an event to the application, and sends its datagrams.
    fn dispatch(&mut self, now: Time, event: AppEvent, out: &mut Vec<Payload>) {
        let Some(app) = &mut self.app else { return };
        app.on_event(now, event, &mut self.streams);
        // No component reads the application's notifications.
        self.streams.notifications.clear();
        self.streams.flush(self.header_bytes, out);
        if self.streams.closing && !std::mem::replace(&mut self.closed, true) {
            self.ended_at = Some(now);
            self.record_event(now, FlowEventKind::Closed);
        }
    }
}

impl endpoint::Endpoint for UdpEndpoint {
    /// Starts the application; both sides do this.
    fn connect(
        &mut self,
        now: Time,
        app: Option<Box<dyn App>>,
        out: &mut Vec<Payload>,
    ) -> Result<(), String> {
        if self.app.is_some() {
            return Err("it has already begun".to_owned());
        }
        self.app = Some(app.unwrap_or_else(|| (self.build_app)(0)));
        self.connected_at = Some(now);
        if self.side == Side::Client {
            self.record_event(now, FlowEventKind::Start);
        }
        self.dispatch(now, AppEvent::Ready, out);
        Ok(())
    }

    fn receive(&mut self, now: Time, payload: Payload, out: &mut Vec<Payload>) {
        let Payload::Udp(datagram) = payload else { return };
        // Datagrams that arrive after the close were sent before it, and are still delivered.
        if self.app.is_none() {
            return;
        }
        self.streams.receive(datagram);
        self.dispatch(now, AppEvent::DatagramsReceived, out);
        // An application that does not read must not accumulate datagrams.
        self.streams.incoming.clear();
    }

    fn poll(&mut self, now: Time, out: &mut Vec<Payload>) {
        if self.app.as_ref().is_some_and(|app| app.poll_at() <= now) {
            self.dispatch(now, AppEvent::Timer, out);
        }
    }

    fn poll_at(&mut self) -> Time {
        self.app.as_ref().map_or(Time::MAX, |app| app.poll_at())
    }

    fn poll_source(&mut self) -> (Time, TimerSource) {
        (self.poll_at(), TimerSource::Application)
    }

    fn counters(&self) -> FlowCounters {
        let mut counters = self.streams.counters;
        if let Some(app) = &self.app {
            counters.add(&received_counters(app.stream_reports()));
        }
        counters
    }

    fn gauges(&self) -> SenderGauges {
        SenderGauges::default()
    }

    fn controller(&self) -> Option<&dyn CongestionControl> {
        None
    }

    fn take_events(&mut self) -> Vec<FlowEvent> {
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

    fn stream_reports(&self) -> Vec<(u32, StreamReport)> {
        let streams = self.app.iter().flat_map(|app| app.stream_reports());
        streams.map(|stream| (0, stream.clone())).collect()
    }

    fn media_report(&self) -> Option<MediaReport> {
        self.app.as_ref()?.media_report()
    }
}
