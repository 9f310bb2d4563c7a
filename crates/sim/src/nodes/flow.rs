//! Builds the two endpoints of a flow from its specification.

use bundle::cla::ClaTransport;
use transport::media::{MediaSide, SourceSpec};
use transport::perf_load::{OnOffSource, PerfClient, PerfServer, PeriodDistribution};
use transport::quic::{self, Handshake, QuicRequirements, QuicSpec, prime_session};
use transport::{
    AmountSpec, App, AppBuilder, ControllerBuilder, Endpoint, LoadSpec, Side, SizeSpec, StreamSpec,
};
use transport::{tcp, udp, web};
use units::{Direction, RandomStream, Span, Time};

use crate::nodes::addresses::FlowAddresses;
use crate::nodes::attachment::{Labelled, ProbedNode};
use crate::nodes::flow_host::{ConnectionArrivals, FlowHost};
use spec::{CongestionSpec, FlowSpec, TcpSides, TraceSpec, TransportSpec};

/// Creates builders of controllers outside the catalogue. Returns `None` for a name of the catalogue.
pub type ExternalControllers<'a> =
    dyn FnMut(&CongestionSpec, &cc::ControllerConfig) -> Option<ControllerBuilder> + 'a;

/// One endpoint of a flow, for results and messages.
pub struct FlowEndpoint {
    /// The name of the flow.
    pub flow: String,
    /// The side of the flow.
    pub side: Side,
    /// The name of the controller in use.
    pub congestion: String,
    /// The addresses of the flow.
    pub addresses: FlowAddresses,
    /// The start time of the flow.
    pub start: Time,
    /// The attachment and its interface.
    pub interface_id: (usize, usize),
    /// Whether the endpoint belongs to a bundle node, which has other endpoints too.
    pub is_bundle_node: bool,
}

/// Returns the number of attachments that are hosts of flows. They come first.
pub fn count_hosts(endpoints: &[FlowEndpoint]) -> usize {
    endpoints.iter().filter(|side| !side.is_bundle_node).count()
}

/// Draws the start time of `flow`.
pub fn draw_start_time(seed: u64, flow: &FlowSpec) -> Time {
    let mut random = RandomStream::named(seed, &flow.name, "start");
    Time(flow.start_ns) + random.span_below(Span(flow.start_jitter_ns + 1))
}

/// Builds both endpoints of `flow`, with index `position.0` out of `position.1`. A refused flow never starts.
pub fn build(
    seed: u64,
    flow: &FlowSpec,
    position: (usize, usize),
    refused: bool,
    trace: TraceSpec,
    controllers: &mut ExternalControllers<'_>,
) -> Result<[Labelled<FlowEndpoint>; 2], String> {
    let named = |purpose: &str| RandomStream::named(seed, &flow.name, purpose);
    let start = draw_start_time(seed, flow);
    let udp_header_bytes = match &flow.transport {
        TransportSpec::Quic(quic) | TransportSpec::Web { quic, .. } => u32::from(quic.header_bytes),
        TransportSpec::Udp(udp) => u32::from(udp.header_bytes),
        // A TCP header has 20 bytes without options, a UDP header 8.
        TransportSpec::Tcp(tcp) => u32::from(tcp.client.header_bytes) - 12,
    };
    let addresses = FlowAddresses::new(position.0, position.1, udp_header_bytes);
    let (mean_interval, until) = match flow.load {
        LoadSpec::Poisson { mean_interarrival_ns, duration_ns, .. } => {
            (Some(Span(mean_interarrival_ns)), start + Span(duration_ns))
        }
        _ => (None, Time::MAX),
    };
    // Every stream uses a separate TCP connection, as in iperf3.
    let connections = match (&flow.transport, &flow.load) {
        (TransportSpec::Tcp(_), LoadSpec::Perf { streams }) => streams.len(),
        _ => 1,
    };
    let random = named("arrivals");
    let mut arrivals =
        ConnectionArrivals { next_arrival: start, mean_interval, until, random, connections };
    if arrivals.mean_interval.is_some() {
        arrivals.advance();
    }
    // UDP has no signalling of calls, so both sides start independently.
    let server_arrivals = matches!(flow.transport, TransportSpec::Udp(_)).then(|| arrivals.clone());
    let hosts = |[client, server]: [Box<dyn Endpoint>; 2]| -> [Box<dyn ProbedNode>; 2] {
        if refused {
            return [
                Box::new(FlowHost::new_refused(client, start)),
                Box::new(FlowHost::new(server, None)),
            ];
        }
        [
            Box::new(FlowHost::new(client, Some(arrivals))),
            Box::new(FlowHost::new(server, server_arrivals)),
        ]
    };
    validate_load(&flow.load).map_err(|error| format!("flow {}: {error}", flow.name))?;
    let [client, server] = match &flow.transport {
        TransportSpec::Quic(quic) => {
            build_quic_endpoints(seed, flow, quic, trace, controllers).map(hosts)
        }
        TransportSpec::Tcp(tcp) => build_tcp_endpoints(seed, flow, tcp, controllers).map(hosts),
        TransportSpec::Udp(udp) => build_udp_endpoints(seed, flow, udp).map(hosts),
        TransportSpec::Web { quic, tcp, tcp_congestion } => {
            let default_congestion =
                (flow.client_congestion.clone(), flow.server_congestion.clone());
            let tcp_congestion_pair = tcp_congestion.as_ref().unwrap_or(&default_congestion);
            build_web_nodes(seed, flow, start, quic, (tcp, tcp_congestion_pair), controllers)
        }
    }
    .map_err(|error| format!("flow {}: {error}", flow.name))?;
    let build_endpoint = |side, congestion: &CongestionSpec| FlowEndpoint {
        flow: flow.name.clone(),
        side,
        congestion: congestion.name.clone(),
        addresses,
        start,
        interface_id: (2 * position.0 + usize::from(side == Side::Server), 0),
        is_bundle_node: false,
    };
    Ok([
        (build_endpoint(Side::Client, &flow.client_congestion), client),
        (build_endpoint(Side::Server, &flow.server_congestion), server),
    ])
}

/// Validates a load independently of its transport.
fn validate_load(load: &LoadSpec) -> Result<(), String> {
    match load {
        LoadSpec::OnOff { pareto_shape: Some(shape), .. } => {
            PeriodDistribution::Pareto { shape: *shape }.check()
        }
        LoadSpec::Datagrams(datagrams) => datagrams.check(),
        _ => Ok(()),
    }
}

/// Builds both QUIC endpoints of a flow.
fn build_quic_endpoints(
    seed: u64,
    flow: &FlowSpec,
    quic: &QuicSpec,
    trace: TraceSpec,
    controllers: &mut ExternalControllers<'_>,
) -> Result<[Box<dyn Endpoint>; 2], String> {
    let mut side = |side, congestion: &CongestionSpec| {
        let name = format!("{}.{}", flow.name, Side::name(side));
        let controller_builder =
            controller_builder(congestion, controller_config(quic, seed, &name), controllers)?;
        let app_builder = app_builder(seed, flow, side);
        quic::QuicEndpoint::new(side, quic, seed, &name, app_builder, controller_builder)
    };
    let mut client = side(Side::Client, &flow.client_congestion)?;
    let mut server = side(Side::Server, &flow.server_congestion)?;
    if let LoadSpec::Datagrams(datagrams) = &flow.load {
        client.set_requirements(datagram_requirements(datagrams.up.as_ref()));
        server.set_requirements(datagram_requirements(datagrams.down.as_ref()));
    }
    if matches!(flow.load, LoadSpec::Poisson { .. } | LoadSpec::OnOff { .. }) {
        server.limit_to_one_stream();
    }
    if quic.handshake == Handshake::ZeroRtt {
        prime_session(Time::ZERO, &mut client, &mut server)
            .map_err(|error| format!("0-RTT: {error}"))?;
    }
    if !trace.qlog && !trace.pcapng {
        client.enable_compact_closing();
    }
    Ok([Box::new(client), Box::new(server)])
}

/// Limits the datagram buffer to one second of the source, at least 16 KiB. Older media are useless to the receiver.
fn datagram_requirements(source: Option<&SourceSpec>) -> QuicRequirements {
    let second = source.map_or(0, |source| {
        let datagrams = 1_000_000_000 / source.interval_ns.max(1) + 1;
        // The queue overhead is below 64 bytes per datagram.
        datagrams * (u64::from(source.payload_bytes) + 64)
    });
    let max_bytes = u32::try_from(second).unwrap_or(u32::MAX);
    QuicRequirements {
        datagram_buffer_bytes: Some(max_bytes.max(16 << 10)),
        ..QuicRequirements::default()
    }
}

/// Builds one endpoint of a flow between bundle nodes. `app_builder` creates the sessions of incoming connections.
pub fn build_cla_endpoint(
    seed: u64,
    flow: &FlowSpec,
    side: Side,
    cla_transport: ClaTransport,
    app_builder: AppBuilder,
    controllers: &mut ExternalControllers<'_>,
) -> Result<Box<dyn Endpoint>, String> {
    let name = format!("{}.{}", flow.name, Side::name(side));
    let congestion = match side {
        Side::Client => &flow.client_congestion,
        Side::Server => &flow.server_congestion,
    };
    match (&flow.transport, cla_transport) {
        (TransportSpec::Quic(quic), ClaTransport::Quic(requirements)) => {
            let config = controller_config(quic, seed, &name);
            let controller = controller_builder(congestion, config, controllers)?;
            let mut endpoint =
                quic::QuicEndpoint::new(side, quic, seed, &name, app_builder, controller)?;
            endpoint.set_requirements(requirements);
            Ok(Box::new(endpoint))
        }
        (TransportSpec::Tcp(tcp), ClaTransport::Tcp) => {
            let spec = if side == Side::Client { &tcp.client } else { &tcp.server };
            let config = tcp_controller_config(tcp, spec, seed, &name);
            let controller = controller_builder(congestion, config, controllers)?;
            Ok(Box::new(tcp::TcpEndpoint::new(side, spec, app_builder, controller)))
        }
        (TransportSpec::Udp(udp), ClaTransport::Udp) => {
            Ok(Box::new(udp::UdpPeer::new(side, udp, app_builder)))
        }
        _ => Err("its convergence layer does not support its transport".to_owned()),
    }
}

/// Builds both UDP endpoints of a flow.
fn build_udp_endpoints(
    seed: u64,
    flow: &FlowSpec,
    udp: &udp::UdpSpec,
) -> Result<[Box<dyn Endpoint>; 2], String> {
    if !matches!(flow.load, LoadSpec::Datagrams(_)) {
        return Err("UDP carries only loads of datagrams".to_owned());
    }
    let side = |side| -> Box<dyn Endpoint> {
        Box::new(udp::UdpEndpoint::new(side, udp, app_builder(seed, flow, side)))
    };
    Ok([side(Side::Client), side(Side::Server)])
}

/// Builds both TCP endpoints of a flow.
fn build_tcp_endpoints(
    seed: u64,
    flow: &FlowSpec,
    tcp: &TcpSides,
    controllers: &mut ExternalControllers<'_>,
) -> Result<[Box<dyn Endpoint>; 2], String> {
    if matches!(flow.load, LoadSpec::Datagrams(_)) {
        return Err("TCP carries no datagrams".to_owned());
    }
    if let LoadSpec::Perf { streams } = &flow.load
        && streams.iter().any(|stream| stream.after.is_some())
    {
        return Err("TCP does not support `after`: all streams begin at once".to_owned());
    }
    let mut side = |side, congestion: &CongestionSpec, spec: &tcp::TcpSpec| {
        let name = format!("{}.{}", flow.name, Side::name(side));
        let config = tcp_controller_config(tcp, spec, seed, &name);
        let controller_builder = controller_builder(congestion, config, controllers)?;
        let app_builder = match (&flow.load, side) {
            (LoadSpec::Perf { streams }, Side::Client) => {
                let streams = streams.clone();
                Box::new(move |index: u32| {
                    let stream_spec = streams.get(index as usize).cloned();
                    Box::new(PerfClient::new(stream_spec.as_slice())) as Box<dyn App>
                }) as AppBuilder
            }
            _ => app_builder(seed, flow, side),
        };
        Ok(Box::new(tcp::TcpEndpoint::new(side, spec, app_builder, controller_builder)))
    };
    let client: Result<_, String> = side(Side::Client, &flow.client_congestion, &tcp.client);
    Ok([client?, side(Side::Server, &flow.server_congestion, &tcp.server)?])
}

/// Builds a browser and the servers of its page. The page selects early data for QUIC, as it does for TLS over TCP.
fn build_web_nodes(
    seed: u64,
    flow: &FlowSpec,
    start: Time,
    quic: &QuicSpec,
    (tcp, tcp_builder): (&TcpSides, &(CongestionSpec, CongestionSpec)),
    controllers: &mut ExternalControllers<'_>,
) -> Result<[Box<dyn ProbedNode>; 2], String> {
    let LoadSpec::Page(web) = &flow.load else {
        return Err("the web transport carries only loads of pages".to_owned());
    };
    let early = web.tls.resumption && web.tls.early_data;
    let handshake = if early { Handshake::ZeroRtt } else { Handshake::OneRtt };
    let quic = QuicSpec { handshake, ..quic.clone() };
    let mut endpoint_builders = |side| {
        let name = format!("{}.{}", flow.name, Side::name(side));
        let (quic_spec, tcp_spec, spec) = match side {
            Side::Client => (&flow.client_congestion, &tcp_builder.0, &tcp.client),
            Side::Server => (&flow.server_congestion, &tcp_builder.1, &tcp.server),
        };
        let config = controller_config(&quic, seed, &name);
        let mut quic_builder = Some(controller_builder(quic_spec, config, controllers)?);
        let config = tcp_controller_config(tcp, spec, seed, &name);
        let mut over_tcp = Some(controller_builder(tcp_spec, config, controllers)?);
        let quic_name = name.clone();
        let (quic, spec) = (quic.clone(), spec.clone());
        let build_quic = move |app_builder| {
            let controller = quic_builder.take().ok_or("one QUIC endpoint a side")?;
            quic::QuicEndpoint::new(side, &quic, seed, &quic_name, app_builder, controller)
        };
        let build_tcp = move |make_app| -> Result<Box<dyn Endpoint>, String> {
            let controller = over_tcp.take().ok_or("one TCP endpoint a side")?;
            Ok(Box::new(tcp::TcpEndpoint::new(side, &spec, make_app, controller)))
        };
        Ok::<_, String>((name, build_quic, build_tcp))
    };
    let (name, mut build_quic, mut build_tcp) = endpoint_builders(Side::Client)?;
    let client = web::Client::new(web, start, seed, &name, &mut build_quic, &mut build_tcp)?;
    let (_, mut make_quic, mut make_tcp) = endpoint_builders(Side::Server)?;
    let server = web::Server::new(web, &mut make_quic, &mut make_tcp)?;
    Ok([Box::new(client), Box::new(FlowHost::new(Box::new(server), None))])
}

/// Derives the controller configuration, such as the MSS, from the specifications of both endpoints.
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

fn app_builder(seed: u64, flow: &FlowSpec, side: Side) -> AppBuilder {
    let load = flow.load.clone();
    let talk_spurts = RandomStream::named(seed, &flow.name, &format!("periods {}", side.name()));
    let mut sizes = RandomStream::named(seed, &flow.name, "sizes");
    let periods = RandomStream::named(seed, &flow.name, "periods");
    Box::new(move |_| match &load {
        LoadSpec::Datagrams(datagrams) => {
            let source = if side == Side::Client { &datagrams.up } else { &datagrams.down };
            let duration = Span(datagrams.duration_ns);
            Box::new(MediaSide::new(source.as_ref(), duration, side, talk_spurts.clone()))
        }
        load => build_app(load, side, &mut sizes, &periods),
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

/// Creates a builder of controllers, one per connection.
pub fn controller_builder(
    spec: &CongestionSpec,
    config: cc::ControllerConfig,
    controllers: &mut ExternalControllers<'_>,
) -> Result<ControllerBuilder, String> {
    if let Some(builder) = controllers(spec, &config) {
        return Ok(builder);
    }
    let prepared =
        cc::prepare_controller(&spec.name, &spec.options).map_err(|error| error.to_string())?;
    let mut checked = Some(prepared.build(&config).map_err(|error| error.to_string())?);
    Ok(Box::new(move || {
        checked.take().unwrap_or_else(|| prepared.build(&config).expect("it was built before"))
    }))
}

fn build_app(
    load: &LoadSpec,
    side: Side,
    sizes: &mut RandomStream,
    periods: &RandomStream,
) -> Box<dyn App> {
    match (load, side) {
        (LoadSpec::Perf { streams }, Side::Client) => Box::new(PerfClient::new(streams)),
        (LoadSpec::Poisson { size, direction, .. }, Side::Client) => {
            let bytes = draw_size(*size, sizes);
            let (up_bytes, down_bytes) = match direction {
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
                direction,
                duration_ns,
            },
            side,
        ) if (*direction == Direction::Up) == (side == Side::Client) => {
            let (on, off, duration) = (Span(*on_ns), Span(*off_ns), Span(*duration_ns));
            let draw = match pareto_shape {
                Some(shape) => PeriodDistribution::Pareto { shape: *shape },
                None if *exponential => PeriodDistribution::Exponential,
                None => PeriodDistribution::Fixed,
            };
            Box::new(OnOffSource::new(on, off, draw, *rate_bit_s, duration, periods.clone()))
        }
        _ => Box::new(PerfServer::default()),
    }
}

fn draw_size(size: SizeSpec, random: &mut RandomStream) -> u64 {
    match size {
        SizeSpec::Fixed { bytes } => bytes,
        SizeSpec::Exponential { mean_bytes } => random.exponential(mean_bytes as f64).ceil() as u64,
        SizeSpec::Pareto { shape, min_bytes: least_bytes, max_bytes: most_bytes } => {
            (random.pareto(shape, least_bytes as f64) as u64).min(most_bytes)
        }
    }
}
