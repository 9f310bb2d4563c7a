//! Shared helpers of the tests, and tests that connections stay distinct at any count.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use units::{Span, Time};

use super::{TcpEndpoint, TcpSpec};
use crate::perf_load::{PerfClient, PerfServer, StreamReport};
use crate::{AmountSpec, App, AppEvent, Endpoint as _, Side, StreamSpec, Streams};

/// The options of a current Linux.
pub(super) fn spec() -> TcpSpec {
    TcpSpec {
        initial_window_bytes: 10 * 1448,
        restart_after_idle: false,
        receive_buffer_bytes: 64 << 20,
        ..TcpSpec::default()
    }
}

fn endpoint(side: Side, streams: &[StreamSpec]) -> TcpEndpoint {
    let streams = streams.to_vec();
    let app = move |_| -> Box<dyn App> {
        match side {
            Side::Client => Box::new(PerfClient::new(&streams)),
            Side::Server => Box::new(PerfServer::default()),
        }
    };
    TcpEndpoint::new(side, &spec(), Box::new(app), Box::new(controller()))
}

fn controller() -> impl FnMut() -> Box<dyn cc::CongestionControl> + Send {
    let config = cc::ControllerConfig {
        mss: 1448,
        initial_window: 14_480,
        initial_rtt: Span::from_secs(1),
        seed: 1,
        is_paced: false,
    };
    move || cc::build_controller("newreno", &serde_json::json!({}), &config).unwrap()
}

#[test]
fn the_65_537th_connection_is_distinct() {
    let (mut client, mut server) = (endpoint(Side::Client, &[]), endpoint(Side::Server, &[]));
    let (mut up, mut down) = (Vec::new(), Vec::new());
    for opened in [0, 1 << 16] {
        client.stats.opened = opened;
        client.connect(Time::ZERO, None, &mut up).unwrap();
    }
    for _ in 0..3 {
        up.drain(..).for_each(|payload| server.receive(Time::ZERO, payload, &mut down));
        down.drain(..).for_each(|payload| client.receive(Time::ZERO, payload, &mut up));
    }
    for side in [&client, &server] {
        let live: Vec<_> =
            side.connections().map(|one| (one.number(), one.is_established())).collect();
        assert_eq!(live, [(0, true), (1 << 16, true)]);
    }
}

/// An application that counts [`AppEvent::Ready`] and can open its stream from then on.
#[derive(Default)]
struct Opener {
    ready: Arc<AtomicU32>,
}

impl App for Opener {
    fn on_event(&mut self, _now: Time, event: AppEvent, streams: &mut dyn Streams) {
        if event == AppEvent::Ready {
            assert_eq!(streams.open(), Some(0));
            self.ready.fetch_add(1, Ordering::Relaxed);
        }
    }

    fn poll_at(&self) -> Time {
        Time::MAX
    }

    fn has_data(&self) -> bool {
        false
    }

    fn stream_reports(&self) -> &[StreamReport] {
        &[]
    }
}

/// RFC 9293 section 3.10.7.4: each end may send in ESTABLISHED, the server from the third segment on.
#[test]
fn both_ends_get_ready_once() {
    let counts = [Arc::new(AtomicU32::new(0)), Arc::new(AtomicU32::new(0))];
    let end = |side: Side, count: &Arc<AtomicU32>| {
        let ready = count.clone();
        let app = move |_| Box::new(Opener { ready: ready.clone() }) as Box<dyn App>;
        TcpEndpoint::new(side, &spec(), Box::new(app), Box::new(controller()))
    };
    let (mut client, mut server) = (end(Side::Client, &counts[0]), end(Side::Server, &counts[1]));
    let (mut up, mut down) = (Vec::new(), Vec::new());
    client.connect(Time::ZERO, None, &mut up).unwrap();
    for expected in [[0, 0], [0, 0], [1, 0], [1, 1], [1, 1]] {
        let found = counts.each_ref().map(|count| count.load(Ordering::Relaxed));
        assert_eq!(found, expected);
        let (to_server, to_client) = (std::mem::take(&mut up), std::mem::take(&mut down));
        to_server.into_iter().for_each(|payload| server.receive(Time::ZERO, payload, &mut down));
        to_client.into_iter().for_each(|payload| client.receive(Time::ZERO, payload, &mut up));
    }
}

/// A client gets no segments after the end, and still expires connections as a server does.
#[test]
fn time_wait_ends() {
    let amount = AmountSpec::Data { up_bytes: 8, down_bytes: 1 };
    let stream = StreamSpec { stream_id: 0, after: None, amount };
    let mut ends =
        [Side::Client, Side::Server].map(|side| endpoint(side, std::slice::from_ref(&stream)));
    let (mut up, mut down) = (Vec::new(), Vec::new());
    for minute in [0, 2, 4] {
        let [client, server] = &mut ends;
        let mut now = Time::ZERO + Span::from_secs(60 * minute);
        client.connect(now, None, &mut up).unwrap();
        for _ in 0..200 {
            now += Span::from_millis(10);
            let (to_server, to_client) = (std::mem::take(&mut up), std::mem::take(&mut down));
            to_server.into_iter().for_each(|payload| server.receive(now, payload, &mut down));
            to_client.into_iter().for_each(|payload| client.receive(now, payload, &mut up));
            client.poll(now, &mut up);
            server.poll(now, &mut down);
        }
        for end in &ends {
            assert_eq!(end.connections().count(), 0);
            assert_eq!(
                (end.time_wait.len(), end.time_wait_expiry.len()),
                (1, 1),
                "minute {minute}"
            );
        }
    }
}
