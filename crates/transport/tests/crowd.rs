//! Idle connections cost no work. None of their applications is queried while another connection works, or gets a
//! command.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use transport::perf_load::{PerfClient, PerfServer, StreamReport};
use transport::quic::{QuicEndpoint, QuicSpec};
use transport::tcp::{TcpEndpoint, TcpSpec};
use transport::{
    AmountSpec, App, AppBuilder, AppCommand, AppEvent, AppNotification, ControllerBuilder,
    Endpoint, Side, StreamSpec, Streams,
};
use units::{Span, Time};

const BYTES: u64 = 300_000;

/// Counts the queries of its next deadline; idle without an application.
struct Counted {
    app: Option<Box<dyn App>>,
    asked: Arc<AtomicU64>,
}

impl App for Counted {
    fn on_event(&mut self, now: Time, event: AppEvent, streams: &mut dyn Streams) {
        if let Some(app) = &mut self.app {
            app.on_event(now, event, streams);
        }
    }

    fn poll_at(&self) -> Time {
        self.asked.fetch_add(1, Ordering::Relaxed);
        self.app.as_ref().map_or(Time::MAX, |app| app.poll_at())
    }

    fn has_data(&self) -> bool {
        self.app.as_ref().is_some_and(|app| app.has_data())
    }

    fn stream_reports(&self) -> &[StreamReport] {
        self.app.as_ref().map_or(&[], |app| app.stream_reports())
    }
}

/// Builds applications of which only connection number `busy` has work.
fn apps(side: Side, busy: u32, asked: &Arc<AtomicU64>) -> AppBuilder {
    let asked = asked.clone();
    let amount = AmountSpec::Data { up_bytes: BYTES, down_bytes: 0 };
    let stream = StreamSpec { stream_id: 0, after: None, amount };
    Box::new(move |number| {
        let app = (number == busy).then(|| -> Box<dyn App> {
            match side {
                Side::Client => Box::new(PerfClient::new(std::slice::from_ref(&stream))),
                Side::Server => Box::new(PerfServer::default()),
            }
        });
        Box::new(Counted { app, asked: asked.clone() })
    })
}

fn controller(mss: u64) -> ControllerBuilder {
    let (initial_window, initial_rtt) = (10 * mss, Span::from_millis(100));
    let config = cc::ControllerConfig { mss, initial_window, initial_rtt, seed: 1, is_paced: true };
    Box::new(move || cc::build_controller("newreno", &serde_json::json!({}), &config).unwrap())
}

fn over_quic(side: Side, app: AppBuilder) -> Box<dyn Endpoint> {
    let spec = QuicSpec {
        mtu_bytes: 1252,
        initial_window_bytes: 12_520,
        unpaced_burst_packets: 10,
        initial_rtt_ns: 100_000_000,
        ..QuicSpec::default()
    };
    Box::new(QuicEndpoint::new(side, &spec, 1, side.name(), app, controller(1252)).unwrap())
}

fn over_tcp(side: Side, app: AppBuilder) -> Box<dyn Endpoint> {
    let spec = TcpSpec {
        initial_window_bytes: 14_480,
        delayed_ack: None,
        receive_buffer_bytes: 1 << 20,
        ..TcpSpec::default()
    };
    Box::new(TcpEndpoint::new(side, &spec, app, controller(1448)))
}

/// Returns the queries per packet of one connection beside `idle` established others.
fn questions(make: fn(Side, AppBuilder) -> Box<dyn Endpoint>, idle: u32) -> f64 {
    let asked = Arc::new(AtomicU64::new(0));
    let mut ends = [Side::Client, Side::Server].map(|side| make(side, apps(side, idle, &asked)));
    let [client, server] = &mut ends;
    let (mut now, mut packets) = (Time::ZERO, 0u64);
    let (mut up, mut down) = (Vec::new(), Vec::new());
    for _ in 0..idle {
        client.connect(now, None, &mut up).unwrap();
    }
    let mut busy = false;
    while server.counters().received_bytes < BYTES {
        assert!(now < Time(1_000_000_000_000), "{} bytes came", server.counters().received_bytes);
        if up.is_empty() && down.is_empty() {
            let next = client.poll_at().min(server.poll_at());
            if !busy && (next == Time::MAX || now > Time(10_000_000_000)) {
                busy = true;
                packets = 0;
                asked.store(0, Ordering::Relaxed);
                client.connect(now, None, &mut up).unwrap();
                continue;
            }
            now = now.max(next.min(now + Span::from_secs(1)));
        }
        packets += (up.len() + down.len()) as u64;
        let (mut to_server, mut to_client) = (std::mem::take(&mut up), std::mem::take(&mut down));
        now += Span::from_millis(5);
        to_server.drain(..).for_each(|payload| server.receive(now, payload, &mut down));
        to_client.drain(..).for_each(|payload| client.receive(now, payload, &mut up));
        for (end, out) in [(&mut *client, &mut up), (&mut *server, &mut down)] {
            if end.poll_at() <= now {
                end.poll(now, out);
            }
        }
    }
    assert!(packets > BYTES / 1500);
    asked.load(Ordering::Relaxed) as f64 / packets as f64
}

fn assert_flat(make: fn(Side, AppBuilder) -> Box<dyn Endpoint>) {
    let (alone, beside) = (questions(make, 0), questions(make, 1000));
    assert!(beside < alone + 0.5, "{beside} questions a packet beside 1,000, {alone} alone");
}

#[test]
fn a_quic_packet_queries_no_idle_connection() {
    assert_flat(over_quic);
}

#[test]
fn a_tcp_packet_queries_no_idle_connection() {
    assert_flat(over_tcp);
}

/// Reports its requested object at its next event, and counts its events.
struct NotifyingApp {
    object: Option<u32>,
    worked: Arc<AtomicU64>,
}

impl App for NotifyingApp {
    fn on_event(&mut self, _now: Time, _event: AppEvent, streams: &mut dyn Streams) {
        self.worked.fetch_add(1, Ordering::Relaxed);
        self.object
            .take()
            .into_iter()
            .for_each(|object| streams.notify(AppNotification::RequestSent(object)));
    }

    fn on_command(&mut self, order: AppCommand) {
        if let AppCommand::Request(object) = order {
            self.object = Some(object);
        }
    }

    fn poll_at(&self) -> Time {
        if self.object.is_some() { Time::ZERO } else { Time::MAX }
    }

    fn has_data(&self) -> bool {
        false
    }

    fn stream_reports(&self) -> &[StreamReport] {
        &[]
    }
}

/// One of three connections gets a command: it alone works, and its notification has its number.
fn assert_command_reaches_one(make: fn(Side, AppBuilder) -> Box<dyn Endpoint>) {
    let worked: [Arc<AtomicU64>; 3] = Default::default();
    let build_app =
        |number: usize| Box::new(NotifyingApp { object: None, worked: worked[number].clone() });
    let mut client = make(Side::Client, Box::new(|_| panic!("they are brought")));
    let mut server = make(Side::Server, apps(Side::Server, u32::MAX, &Arc::default()));
    let (mut up, mut down, mut notifications) = (Vec::new(), Vec::new(), Vec::new());
    let now = Time::ZERO;
    for number in 0..3 {
        let mut app = build_app(number);
        // The last application gets a command before it starts.
        if number == 2 {
            app.on_command(AppCommand::Request(7));
        }
        client.connect(now, Some(app), &mut up).unwrap();
    }
    for _ in 0..4 {
        up.drain(..).for_each(|payload| server.receive(now, payload, &mut down));
        down.drain(..).for_each(|payload| client.receive(now, payload, &mut up));
    }
    client.take_notifications(&mut notifications);
    assert_eq!(notifications, [(2, AppNotification::RequestSent(7))]);
    let before = worked.each_ref().map(|count| count.load(Ordering::Relaxed));
    client.send_command(1, AppCommand::Request(5));
    client.send_command(3, AppCommand::Request(5));
    assert_eq!(client.poll_at(), now);
    client.poll(now, &mut up);
    notifications.clear();
    client.take_notifications(&mut notifications);
    assert_eq!(notifications, [(1, AppNotification::RequestSent(5))]);
    let after = worked.each_ref().map(|count| count.load(Ordering::Relaxed));
    assert_eq!(after, [before[0], before[1] + 1, before[2]]);
}

#[test]
fn a_quic_command_reaches_one_connection() {
    assert_command_reaches_one(over_quic);
}

#[test]
fn a_tcp_command_reaches_one_connection() {
    assert_command_reaches_one(over_tcp);
}
