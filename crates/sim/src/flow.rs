//! What a flow is made of: the nodes at its two ends, from the specification.

use bundle::layers::Over;
use transport::calls::{Caller, SourceSpec};
use transport::load::{DrawSpec, OnOff, PerfClient, PerfServer};
use transport::quic::{self, Handshake, Needs, QuicSpec, warm_up};
use transport::{
    AmountSpec, App, Endpoint, LoadSpec, MakeApp, MakeController, Node, Side, SizeSpec, StreamSpec,
};
use transport::{tcp, udp, web};
use units::{Direction, RandomStream, Span, Time};

use crate::addresses::Addresses;
use crate::host::{Arrivals, Host};
use crate::seat::Known;
use spec::{CongestionSpec, FlowSpec, TcpSides, TraceSpec, TransportSpec};

/// Makes factories of controllers that the catalogue does not know: none for a name of the catalogue.
pub type Controllers<'a> =
    dyn FnMut(&CongestionSpec, &cc::ControllerConfig) -> Option<MakeController> + 'a;

/// One side of a flow, for those who tell of it.
pub struct FlowSide {
    /// The flow's name.
    pub flow: String,
    /// Which side.
    pub side: Side,
    /// Name of the controller in use.
    pub congestion: String,
    /// Addresses of the flow.
    pub addresses: Addresses,
    /// When the flow begins.
    pub start: Time,
    /// Its seat, and the end of it.
    pub at: (usize, usize),
    /// It is an end of a bundle node, which has others.
    pub linked: bool,
}

/// How many seats are those of flows alone: the first ones.
pub fn hosts(sides: &[FlowSide]) -> usize {
    sides.iter().filter(|side| !side.linked).count()
}

/// When `flow` begins.
pub fn start(seed: u64, flow: &FlowSpec) -> Time {
    let mut random = RandomStream::named(seed, &flow.name, "start");
    Time(flow.start_ns) + random.span_below(Span(flow.start_jitter_ns + 1))
}

/// Builds both sides of `flow`, which is number `place.0` of `place.1`; one that is refused never begins.
pub fn build(
    seed: u64,
    flow: &FlowSpec,
    place: (usize, usize),
    refused: bool,
    trace: TraceSpec,
    controllers: &mut Controllers<'_>,
) -> Result<[Known<FlowSide>; 2], String> {
    let named = |purpose: &str| RandomStream::named(seed, &flow.name, purpose);
    let start = start(seed, flow);
    let udp_header_bytes = match &flow.transport {
        TransportSpec::Quic(quic) | TransportSpec::Web { quic, .. } => u32::from(quic.header_bytes),
        TransportSpec::Udp(udp) => u32::from(udp.header_bytes),
        // A TCP header is 20 bytes without options, a UDP header 8.
        TransportSpec::Tcp(tcp) => u32::from(tcp.client.header_bytes) - 12,
    };
    let addresses = Addresses::new(place.0, place.1, udp_header_bytes);
    let (mean, until) = match flow.load {
        LoadSpec::Poisson { mean_interarrival_ns, duration_ns, .. } => {
            (Some(Span(mean_interarrival_ns)), start + Span(duration_ns))
        }
        _ => (None, Time::MAX),
    };
    // Over TCP every stream is a connection of its own, as in iperf3.
    let connections = match (&flow.transport, &flow.load) {
        (TransportSpec::Tcp(_), LoadSpec::Perf { streams }) => streams.len(),
        _ => 1,
    };
    let random = named("arrivals");
    let mut arrivals = Arrivals { next: start, mean, until, random, connections };
    if arrivals.mean.is_some() {
        arrivals.advance();
    }
    // Over UDP nobody is told of a call, so that both sides begin.
    let answering = matches!(flow.transport, TransportSpec::Udp(_)).then(|| arrivals.clone());
    let hosts = |[client, server]: [Box<dyn Endpoint>; 2]| -> [Box<dyn Node>; 2] {
        if refused {
            return [Box::new(Host::refused(client, start)), Box::new(Host::new(server, None))];
        }
        [Box::new(Host::new(client, Some(arrivals))), Box::new(Host::new(server, answering))]
    };
    check(&flow.load).map_err(|error| format!("flow {}: {error}", flow.name))?;
    let [client, server] = match &flow.transport {
        TransportSpec::Quic(quic) => quic_sides(seed, flow, quic, trace, controllers).map(hosts),
        TransportSpec::Tcp(tcp) => tcp_sides(seed, flow, tcp, controllers).map(hosts),
        TransportSpec::Udp(udp) => udp_sides(seed, flow, udp).map(hosts),
        TransportSpec::Web { quic, tcp, tcp_congestion } => {
            let own = (flow.client_congestion.clone(), flow.server_congestion.clone());
            let over_tcp = tcp_congestion.as_ref().unwrap_or(&own);
            web_sides(seed, flow, start, quic, (tcp, over_tcp), controllers)
        }
    }
    .map_err(|error| format!("flow {}: {error}", flow.name))?;
    let of = |side, congestion: &CongestionSpec| FlowSide {
        flow: flow.name.clone(),
        side,
        congestion: congestion.name.clone(),
        addresses,
        start,
        at: (2 * place.0 + usize::from(side == Side::Server), 0),
        linked: false,
    };
    Ok([
        (of(Side::Client, &flow.client_congestion), client),
        (of(Side::Server, &flow.server_congestion), server),
    ])
}

/// What is wrong with a load by itself.
fn check(load: &LoadSpec) -> Result<(), String> {
    match load {
        LoadSpec::OnOff { pareto_shape: Some(shape), .. } => {
            DrawSpec::Pareto { shape: *shape }.check()
        }
        LoadSpec::Datagrams(datagrams) => datagrams.check(),
        _ => Ok(()),
    }
}

/// Both QUIC endpoints of a flow.
fn quic_sides(
    seed: u64,
    flow: &FlowSpec,
    quic: &QuicSpec,
    trace: TraceSpec,
    controllers: &mut Controllers<'_>,
) -> Result<[Box<dyn Endpoint>; 2], String> {
    let mut side = |side, congestion: &CongestionSpec| {
        let name = format!("{}.{}", flow.name, Side::name(side));
        let make_controller =
            make_controller(congestion, controller_config(quic, seed, &name), controllers)?;
        let make_app = make_app(seed, flow, side);
        quic::Endpoint::new(side, quic, seed, &name, make_app, make_controller)
    };
    let mut client = side(Side::Client, &flow.client_congestion)?;
    let mut server = side(Side::Server, &flow.server_congestion)?;
    if let LoadSpec::Datagrams(datagrams) = &flow.load {
        client.set_needs(needs(datagrams.up.as_ref()));
        server.set_needs(needs(datagrams.down.as_ref()));
    }
    if matches!(flow.load, LoadSpec::Poisson { .. } | LoadSpec::OnOff { .. }) {
        server.expect_one_stream();
    }
    if quic.handshake == Handshake::ZeroRtt {
        warm_up(Time::ZERO, &mut client, &mut server).map_err(|error| format!("0-RTT: {error}"))?;
    }
    if !trace.qlog && !trace.pcapng {
        client.be_brief();
    }
    Ok([Box::new(client), Box::new(server)])
}

/// A second of what a source sends may wait, and 16 KiB at least: what is older is of no use to who listens.
fn needs(source: Option<&SourceSpec>) -> Needs {
    let second = source.map_or(0, |source| {
        let datagrams = 1_000_000_000 / source.interval_ns.max(1) + 1;
        // A place in the queue takes less than 64 bytes.
        datagrams * (u64::from(source.payload_bytes) + 64)
    });
    let most = u32::try_from(second).unwrap_or(u32::MAX);
    Needs { datagram_bytes: Some(most.max(16 << 10)), ..Needs::default() }
}

/// One side of a flow between bundle nodes; `make_app` makes the sessions of connections that come to it.
pub fn link_side(
    seed: u64,
    flow: &FlowSpec,
    side: Side,
    over: Over,
    make_app: MakeApp,
    controllers: &mut Controllers<'_>,
) -> Result<Box<dyn Endpoint>, String> {
    let name = format!("{}.{}", flow.name, Side::name(side));
    let congestion = match side {
        Side::Client => &flow.client_congestion,
        Side::Server => &flow.server_congestion,
    };
    match (&flow.transport, over) {
        (TransportSpec::Quic(quic), Over::Quic(needs)) => {
            let config = controller_config(quic, seed, &name);
            let controller = make_controller(congestion, config, controllers)?;
            let mut endpoint = quic::Endpoint::new(side, quic, seed, &name, make_app, controller)?;
            endpoint.set_needs(needs);
            Ok(Box::new(endpoint))
        }
        (TransportSpec::Tcp(tcp), Over::Tcp) => {
            let spec = if side == Side::Client { &tcp.client } else { &tcp.server };
            let config = tcp_controller_config(tcp, spec, seed, &name);
            let controller = make_controller(congestion, config, controllers)?;
            Ok(Box::new(tcp::Endpoint::new(side, spec, make_app, controller)))
        }
        (TransportSpec::Udp(udp), Over::Udp) => Ok(Box::new(udp::Pair::new(side, udp, make_app))),
        _ => Err("its convergence layer does not go over its transport".to_owned()),
    }
}

/// Both UDP endpoints of a flow.
fn udp_sides(
    seed: u64,
    flow: &FlowSpec,
    udp: &udp::UdpSpec,
) -> Result<[Box<dyn Endpoint>; 2], String> {
    if !matches!(flow.load, LoadSpec::Datagrams(_)) {
        return Err("UDP carries loads of datagrams only".to_owned());
    }
    let side = |side| -> Box<dyn Endpoint> {
        Box::new(udp::Endpoint::new(side, udp, make_app(seed, flow, side)))
    };
    Ok([side(Side::Client), side(Side::Server)])
}

/// Both TCP endpoints of a flow.
fn tcp_sides(
    seed: u64,
    flow: &FlowSpec,
    tcp: &TcpSides,
    controllers: &mut Controllers<'_>,
) -> Result<[Box<dyn Endpoint>; 2], String> {
    if matches!(flow.load, LoadSpec::Datagrams(_)) {
        return Err("TCP carries no datagrams".to_owned());
    }
    if let LoadSpec::Perf { streams } = &flow.load
        && streams.iter().any(|stream| stream.after.is_some())
    {
        return Err("over TCP every stream begins at once: `after` cannot be".to_owned());
    }
    let mut side = |side, congestion: &CongestionSpec, spec: &tcp::TcpSpec| {
        let name = format!("{}.{}", flow.name, Side::name(side));
        let config = tcp_controller_config(tcp, spec, seed, &name);
        let make_controller = make_controller(congestion, config, controllers)?;
        let make_app = match (&flow.load, side) {
            (LoadSpec::Perf { streams }, Side::Client) => {
                let streams = streams.clone();
                Box::new(move |index: u32| {
                    let own = streams.get(index as usize).cloned();
                    Box::new(PerfClient::new(own.as_slice())) as Box<dyn App>
                }) as MakeApp
            }
            _ => make_app(seed, flow, side),
        };
        Ok(Box::new(tcp::Endpoint::new(side, spec, make_app, make_controller)))
    };
    let client: Result<_, String> = side(Side::Client, &flow.client_congestion, &tcp.client);
    Ok([client?, side(Side::Server, &flow.server_congestion, &tcp.server)?])
}

/// A browser and the servers of its page. Whether QUIC resumes with early data is the page's matter,
/// as for TLS over TCP.
fn web_sides(
    seed: u64,
    flow: &FlowSpec,
    start: Time,
    quic: &QuicSpec,
    (tcp, over_tcp): (&TcpSides, &(CongestionSpec, CongestionSpec)),
    controllers: &mut Controllers<'_>,
) -> Result<[Box<dyn Node>; 2], String> {
    let LoadSpec::Page(web) = &flow.load else {
        return Err("the web transport carries loads of pages only".to_owned());
    };
    let early = web.tls.resumption && web.tls.early_data;
    let handshake = if early { Handshake::ZeroRtt } else { Handshake::OneRtt };
    let quic = QuicSpec { handshake, ..quic.clone() };
    let mut parts = |side| {
        let name = format!("{}.{}", flow.name, Side::name(side));
        let (over_quic, over_tcp, spec) = match side {
            Side::Client => (&flow.client_congestion, &over_tcp.0, &tcp.client),
            Side::Server => (&flow.server_congestion, &over_tcp.1, &tcp.server),
        };
        let config = controller_config(&quic, seed, &name);
        let mut over_quic = Some(make_controller(over_quic, config, controllers)?);
        let config = tcp_controller_config(tcp, spec, seed, &name);
        let mut over_tcp = Some(make_controller(over_tcp, config, controllers)?);
        let quic_name = name.clone();
        let (quic, spec) = (quic.clone(), spec.clone());
        let make_quic = move |make_app| {
            let controller = over_quic.take().ok_or("one QUIC endpoint a side")?;
            quic::Endpoint::new(side, &quic, seed, &quic_name, make_app, controller)
        };
        let make_tcp = move |make_app| -> Result<Box<dyn Endpoint>, String> {
            let controller = over_tcp.take().ok_or("one TCP endpoint a side")?;
            Ok(Box::new(tcp::Endpoint::new(side, &spec, make_app, controller)))
        };
        Ok::<_, String>((name, make_quic, make_tcp))
    };
    let (name, mut make_quic, mut make_tcp) = parts(Side::Client)?;
    let client = web::Client::new(web, start, seed, &name, &mut make_quic, &mut make_tcp)?;
    let (_, mut make_quic, mut make_tcp) = parts(Side::Server)?;
    let server = web::Server::new(web, &mut make_quic, &mut make_tcp)?;
    Ok([Box::new(client), Box::new(Host::new(Box::new(server), None))])
}

/// What both ends will agree on is known beforehand: the payload of a full segment among it.
fn tcp_controller_config(
    tcp: &TcpSides,
    spec: &tcp::TcpSpec,
    seed: u64,
    name: &str,
) -> cc::ControllerConfig {
    cc::ControllerConfig {
        mss: tcp::payload_bytes(&tcp.client, &tcp.server),
        initial_window: spec.initial_window_bytes,
        initial_rtt: Span(spec.initial_rto_ns),
        seed: RandomStream::named(seed, name, "congestion control").bits(),
        is_paced: spec.pacing,
    }
}

fn make_app(seed: u64, flow: &FlowSpec, side: Side) -> MakeApp {
    let load = flow.load.clone();
    let talk = RandomStream::named(seed, &flow.name, &format!("periods {}", side.name()));
    let mut sizes = RandomStream::named(seed, &flow.name, "sizes");
    let periods = RandomStream::named(seed, &flow.name, "periods");
    Box::new(move |_| match &load {
        LoadSpec::Datagrams(datagrams) => {
            let source = if side == Side::Client { &datagrams.up } else { &datagrams.down };
            let duration = Span(datagrams.duration_ns);
            Box::new(Caller::new(source.as_ref(), duration, side, talk.clone()))
        }
        load => app(load, side, &mut sizes, &periods),
    })
}

fn controller_config(quic: &QuicSpec, seed: u64, name: &str) -> cc::ControllerConfig {
    cc::ControllerConfig {
        mss: u64::from(quic.mtu_bytes),
        initial_window: quic.initial_window_bytes,
        initial_rtt: Span(quic.initial_rtt_ns),
        seed: RandomStream::named(seed, name, "congestion control").bits(),
        is_paced: true,
    }
}

/// A factory of controllers, one per connection.
pub fn make_controller(
    spec: &CongestionSpec,
    config: cc::ControllerConfig,
    controllers: &mut Controllers<'_>,
) -> Result<MakeController, String> {
    if let Some(make) = controllers(spec, &config) {
        return Ok(make);
    }
    let build = {
        let spec = spec.clone();
        move || cc::build_controller(&spec.name, &spec.options, &config)
    };
    let mut first = Some(build().map_err(|error| error.to_string())?);
    Ok(Box::new(move || first.take().unwrap_or_else(|| build().expect("it was built before"))))
}

fn app(
    load: &LoadSpec,
    side: Side,
    sizes: &mut RandomStream,
    periods: &RandomStream,
) -> Box<dyn App> {
    match (load, side) {
        (LoadSpec::Perf { streams }, Side::Client) => Box::new(PerfClient::new(streams)),
        (LoadSpec::Poisson { size, send, .. }, Side::Client) => {
            let bytes = draw(*size, sizes);
            let (up_bytes, down_bytes) = match send {
                Direction::Up => (bytes, 0),
                Direction::Down => (8, bytes),
            };
            let amount = AmountSpec::Data { up_bytes, down_bytes };
            Box::new(PerfClient::new(&[StreamSpec { stream_id: 0, after: None, amount }]))
        }
        (
            LoadSpec::OnOff {
                on_ns,
                off_ns,
                exponential,
                pareto_shape,
                rate_bit_s,
                send,
                duration_ns,
            },
            side,
        ) if (*send == Direction::Up) == (side == Side::Client) => {
            let (on, off, duration) = (Span(*on_ns), Span(*off_ns), Span(*duration_ns));
            let draw = match pareto_shape {
                Some(shape) => DrawSpec::Pareto { shape: *shape },
                None if *exponential => DrawSpec::Exponential,
                None => DrawSpec::Fixed,
            };
            Box::new(OnOff::new(on, off, draw, *rate_bit_s, duration, periods.clone()))
        }
        _ => Box::new(PerfServer::default()),
    }
}

fn draw(size: SizeSpec, random: &mut RandomStream) -> u64 {
    match size {
        SizeSpec::Fixed { bytes } => bytes,
        SizeSpec::Exponential { mean_bytes } => random.exponential(mean_bytes as f64).ceil() as u64,
        SizeSpec::Pareto { shape, least_bytes, most_bytes } => {
            (random.pareto(shape, least_bytes as f64) as u64).min(most_bytes)
        }
    }
}
