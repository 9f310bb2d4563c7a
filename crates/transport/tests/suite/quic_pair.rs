//! Two applications over QUIC and a path with a delay in each direction, in virtual time.

use std::sync::{Arc, Mutex};

use transport::perf_load::StreamReport;
use transport::quic::{QuicEndpoint, QuicRequirements, QuicSpec};
use transport::{App, AppEvent, ControllerBuilder, Endpoint as _, Payload, Side, Streams};
use units::{Span, Time};

pub const ONE_WAY: Span = Span::from_millis(50);
const MTU: u64 = 1252;
pub const WINDOW: u64 = 10 * MTU;

/// Behaviour of an application: a function of its events.
pub type Does = Box<dyn FnMut(Time, AppEvent, &mut dyn Streams) + Send>;

/// An application with this behaviour.
pub struct Script {
    pub does: Does,
    /// Time of its single [`AppEvent::Timer`].
    pub timer: Time,
}

impl App for Script {
    fn on_event(&mut self, now: Time, event: AppEvent, streams: &mut dyn Streams) {
        if event == AppEvent::Timer {
            self.timer = Time::MAX;
        }
        (self.does)(now, event, streams);
    }

    fn poll_at(&self) -> Time {
        self.timer
    }

    fn has_data(&self) -> bool {
        false
    }

    fn stream_reports(&self) -> &[StreamReport] {
        &[]
    }
}

/// Results of applications for the test.
pub type Shared<T> = Arc<Mutex<T>>;

pub fn shared<T: Default>() -> Shared<T> {
    Arc::default()
}

fn endpoint(side: Side, needs: QuicRequirements, does: Does, timer: Time) -> QuicEndpoint {
    let spec = QuicSpec {
        mtu_bytes: MTU as u16,
        initial_window_bytes: WINDOW,
        unpaced_burst_packets: 10,
        initial_rtt_ns: 100_000_000,
        ..QuicSpec::default()
    };
    let config = cc::ControllerConfig {
        mss: MTU,
        initial_window: WINDOW,
        initial_rtt: Span::from_millis(100),
        seed: 1,
        is_paced: true,
    };
    let controller: ControllerBuilder =
        Box::new(move || cc::build_controller("newreno", &serde_json::json!({}), &config).unwrap());
    let mut app = Some(Script { does, timer });
    let make_app = move |_| Box::new(app.take().expect("one connection")) as Box<dyn App>;
    let mut endpoint =
        QuicEndpoint::new(side, &spec, 1, side.name(), Box::new(make_app), controller).unwrap();
    endpoint.set_requirements(needs);
    endpoint
}

/// One side of a test: requirements, behaviour, and the time of [`AppEvent::Timer`].
pub struct Part {
    pub needs: QuicRequirements,
    pub timer: Time,
    pub does: Does,
}

impl Part {
    pub fn new(
        needs: QuicRequirements,
        does: impl FnMut(Time, AppEvent, &mut dyn Streams) + Send + 'static,
    ) -> Part {
        Part { needs, timer: Time::MAX, does: Box::new(does) }
    }
}

/// A sent packet: its time, its side, and its length.
pub type Sent = (Time, usize, u32);

/// Runs a client and a server until `end`. `loses` decides from a sent packet whether it is lost.
pub fn run(
    [client, server]: [Part; 2],
    end: Time,
    mut loses: impl FnMut(&Sent) -> bool,
) -> ([QuicEndpoint; 2], Vec<Sent>) {
    let mut ends = [
        endpoint(Side::Client, client.needs, client.does, client.timer),
        endpoint(Side::Server, server.needs, server.does, server.timer),
    ];
    let (mut out, mut sent) = (Vec::new(), Vec::new());
    let mut wire: Vec<(Time, usize, Payload)> = Vec::new();
    let (mut now, mut from) = (Time::ZERO, 0);
    ends[0].connect(now, None, &mut out).unwrap();
    loop {
        for payload in out.drain(..) {
            let packet = (now, from, payload.wire_bytes());
            if !loses(&packet) {
                wire.push((now + ONE_WAY, 1 - from, payload));
            }
            sent.push(packet);
        }
        let arrival = wire.first().map_or(Time::MAX, |(at, ..)| *at);
        let wakes = [ends[0].poll_at(), ends[1].poll_at()];
        now = arrival.min(wakes[0]).min(wakes[1]).max(now);
        if now > end {
            return (ends, sent);
        }
        if arrival <= now {
            let (_, to, payload) = wire.remove(0);
            from = to;
            ends[to].receive(now, payload, &mut out);
        } else {
            from = usize::from(wakes[1] <= now);
            ends[from].poll(now, &mut out);
        }
    }
}
