//! Head-of-line blocking: one lost packet delays every later object of HTTP/2, and over HTTP/3 only those with bytes in
//! it.

use transport::quic::{QuicEndpoint, QuicSpec};
use transport::tcp::{TcpEndpoint, TcpSpec};
use transport::web::{
    Client, HostSpec, HttpVersionPolicy, ObjectSpec, PageSpec, ProfileReuse, RequestReport, Server,
    TlsSpec, TlsVersion, WebSpec,
};
use transport::{AppBuilder, ControllerBuilder, Endpoint, Node, Payload, Probe, ReportSink, Side};
use units::{Span, Time};

use crate::tcp_paths::linux;

const ONE_WAY: Span = Span::from_millis(100);
const OBJECTS: u32 = 40;

fn page(http: HttpVersionPolicy) -> WebSpec {
    let object = |n: u32| ObjectSpec {
        name: format!("o{n}"),
        host: 0,
        request_bytes: 100,
        response_header_bytes: 100,
        body_bytes: if n == 0 { 500 } else { 4000 },
        after: if n == 0 { vec![] } else { vec![0] },
        redirect: None,
        think_ns: 0,
    };
    WebSpec {
        page: PageSpec {
            name: "page".into(),
            hosts: vec![HostSpec { name: "a.example".into(), open: false, tls: true }],
            objects: (0..=OBJECTS).map(object).collect(),
        },
        http,
        tls: TlsSpec {
            version: TlsVersion::Tls13,
            resumption: false,
            early_data: false,
            certificate_bytes: 3000,
            client_hello_bytes: 512,
        },
        loads: 1,
        pause_ns: (0, 0),
        timeout_ns: 20_000_000_000,
        profile: ProfileReuse::Fresh,
        keep_connections: false,
        udp_blocked: false,
        quic_head_start_ns: 300_000_000,
        connections_per_host: 6,
        parse_ns: 0,
    }
}

fn controller(mss: u64) -> ControllerBuilder {
    let config = cc::ControllerConfig {
        mss,
        initial_window: 300_000,
        initial_rtt: Span::from_millis(200),
        seed: 1,
        is_paced: true,
    };
    Box::new(move || cc::build_controller("newreno", &serde_json::json!({}), &config).unwrap())
}

fn quic_endpoint(side: Side, app: AppBuilder) -> Result<QuicEndpoint, String> {
    let spec = QuicSpec {
        mtu_bytes: 1252,
        initial_window_bytes: 300_000,
        unpaced_burst_packets: 10,
        initial_rtt_ns: 200_000_000,
        ..QuicSpec::default()
    };
    QuicEndpoint::new(side, &spec, 1, side.name(), app, controller(1252))
}

fn tcp_endpoint(side: Side, app: AppBuilder) -> Result<Box<dyn Endpoint>, String> {
    let spec = TcpSpec {
        initial_window_bytes: 300_000,
        limited_transmit: false,
        restart_after_idle: true,
        receive_buffer_bytes: 1 << 30,
        send_buffer_bytes: 1 << 30,
        ..linux()
    };
    Ok(Box::new(TcpEndpoint::new(side, &spec, app, controller(1448))))
}

/// The requests of a browser.
#[derive(Default)]
struct Requests(Vec<RequestReport>);

impl ReportSink for Requests {
    fn add_request_report(&mut self, request: &RequestReport) {
        self.0.push(request.clone());
    }
}

fn requests(client: &Client) -> Vec<RequestReport> {
    let mut requests = Requests::default();
    client.report(&mut requests);
    requests.0
}

/// Loads the page. The full downward packet number `lost` of the objects (from 0) does not arrive.
fn load(http: HttpVersionPolicy, lost: Option<u32>) -> Vec<RequestReport> {
    let spec = page(http);
    let mut client = Client::new(
        &spec,
        Time::ZERO,
        1,
        "client",
        &mut |app| quic_endpoint(Side::Client, app),
        &mut |app| tcp_endpoint(Side::Client, app),
    )
    .unwrap();
    let mut server = Server::new(&spec, &mut |app| quic_endpoint(Side::Server, app), &mut |app| {
        tcp_endpoint(Side::Server, app)
    })
    .unwrap();
    let mut wire: Vec<(Time, usize, Payload)> = Vec::new();
    let (mut now, mut out, mut full) = (Time::ZERO, [Vec::<Payload>::new()], 0);
    let mut turn = 0;
    loop {
        for payload in out[0].drain(..) {
            if turn == 1 && payload.wire_bytes() > 1200 && requests(&client).len() > 1 {
                full += 1;
                if lost == Some(full - 1) {
                    continue;
                }
            }
            wire.push((now + ONE_WAY, 1 - turn, payload));
        }
        let arrival = wire.first().map_or(Time::MAX, |(at, ..)| *at);
        let wakes = [client.poll_at(), server.poll_at()];
        now = arrival.min(wakes[0]).min(wakes[1]).max(now);
        if now > Time::ZERO + Span::from_secs(20) {
            return requests(&client);
        }
        if arrival <= now {
            let (_, to, payload) = wire.remove(0);
            turn = to;
            match turn {
                0 => client.receive(now, 0, payload, &mut out),
                _ => server.receive(now, payload, &mut out[0]),
            }
        } else {
            turn = usize::from(wakes[1] <= now);
            match turn {
                0 => client.poll(now, &mut out),
                _ => server.poll(now, &mut out[0]),
            }
        }
    }
}

/// Returns the number of objects that the loss delays by half a round trip or more.
fn late(http: HttpVersionPolicy, lost: u32) -> usize {
    let (whole, lossy) = (load(http, None), load(http, Some(lost)));
    assert_eq!(whole.len(), OBJECTS as usize + 1);
    let end = |report: &RequestReport| report.end.expect("it came");
    let late = whole.iter().zip(&lossy).filter(|(a, b)| end(b) > end(a) + ONE_WAY);
    late.count()
}

#[test]
fn a_lost_packet_blocks_later_data_over_tcp_and_its_streams_over_quic() {
    let (http2, http3) = (late(HttpVersionPolicy::Http2, 20), late(HttpVersionPolicy::Http3, 20));
    println!("late objects: {http2} over HTTP/2, {http3} over HTTP/3, of {OBJECTS}");
    assert!(http2 > 3 * OBJECTS as usize / 4, "{http2}");
    assert!((1..=3).contains(&http3), "{http3}");
}
