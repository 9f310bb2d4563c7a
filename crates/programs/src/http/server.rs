//! The complete server: its sockets, its threads, and its output at the start and at the end.

use std::collections::BTreeMap;
use std::io::{self, Write};
use std::net::{SocketAddr, TcpListener, ToSocketAddrs};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;

use nix::sys::resource::{UsageWho, getrusage};
use nix::sys::socket::{setsockopt, sockopt};
use nix::sys::time::TimeVal;
use runtime::tcp::kernel::{MaxSegment, kernel_controller_name};
use runtime::{BatchedUdpSocket, Clock, QuicDriver};
use serde_json::json;
use transport::quic::{NetworkConfig, QuicEndpoint, TlsConfig};
use units::Time;

use super::access_log::AccessLog;
use super::certificate::ServerCertificate;
use super::folder::Folder;
use super::page::{self, ServedObject};
use super::quic::{Http3App, QuicServerContext};
use super::site::Site;
use super::{HttpServerPlan, HttpVersion, tcp};
use crate::ProgramError;

/// The maximum of attempts to find a port that is free for TCP and UDP on all addresses.
const MAX_BIND_ATTEMPTS: usize = 20;

/// The maximum of receive windows in bytes: requests are small.
const MAX_STREAM_WINDOW: u64 = 1 << 16;
const MAX_CONNECTION_WINDOW: u64 = 1 << 20;

/// A server with bound sockets.
pub struct HttpServer {
    plan: HttpServerPlan,
    certificate: ServerCertificate,
    port: u16,
    quic: Vec<(QuicDriver, Arc<QuicServerContext>)>,
    tcp: Option<(Arc<tcp::TcpServerContext>, Vec<TcpListener>)>,
    log: Arc<AccessLog>,
    objects: Vec<ServedObject>,
    clock: Clock,
}

impl HttpServer {
    /// Binds every socket and prepares the content.
    ///
    /// # Errors
    /// The defect of the plan, or the port in use.
    pub fn bind(mut plan: HttpServerPlan) -> Result<HttpServer, ProgramError> {
        plan.protocols.sort_unstable();
        plan.protocols.dedup();
        validate(&plan)?;
        let certificate = ServerCertificate::new(&plan).map_err(ProgramError::Input)?;
        let over_udp = plan.protocols.contains(&HttpVersion::Http3);
        // The newest version is preferred (RFC 7301 section 3.2).
        let over_tcp: Vec<HttpVersion> = plan
            .protocols
            .iter()
            .rev()
            .copied()
            .filter(|protocol| *protocol != HttpVersion::Http3)
            .collect();
        let addresses = addresses(&plan.listen)?;
        let (port, sockets, listeners) = bind(&addresses, over_udp, !over_tcp.is_empty())?;
        for listener in &listeners {
            if let Some(name) = &plan.tcp.congestion {
                set_controller(listener, name)?;
            }
            if let Some(bytes) = plan.tcp.mss_bytes {
                setsockopt(listener, MaxSegment, &bytes).map_err(|error| {
                    ProgramError::Input(format!("tcp: mss_bytes: found {bytes}: {}", error.desc()))
                })?;
            }
        }
        let alt_svc = (plan.alt_svc && over_udp).then_some(port);
        let content = &plan.content;
        let (resources, folder, objects) = match (&content.page, &content.root) {
            (Some(page), None) => {
                let page = page::build(page, &content.authorities, port);
                let page = page.map_err(ProgramError::Input)?;
                (page.resources, None, page.objects)
            }
            (None, Some(root)) => {
                let folder = Folder::new(root).map_err(ProgramError::Input)?;
                (BTreeMap::new(), Some(folder), Vec::new())
            }
            _ => return Err(ProgramError::Input("content: expected a page or a root".to_owned())),
        };
        let site = Arc::new(Site::new(resources, folder, alt_svc));
        let log = AccessLog::new(plan.access_log.as_deref(), &plan.protocols);
        let log = Arc::new(log.map_err(ProgramError::Input)?);
        let mut quic = Vec::new();
        for (index, socket) in sockets.into_iter().enumerate() {
            let prefix = if index == 0 { "q".to_owned() } else { format!("q{index}.") };
            quic.push(build_driver(&plan, &certificate, &site, &log, socket, prefix)?);
        }
        let tcp = if over_tcp.is_empty() {
            None
        } else {
            let tls = certificate.server_config(&over_tcp, plan.tls.resumption, false);
            let tls = tls.map_err(ProgramError::Input)?;
            let shared = tcp::TcpServerContext::new(&plan, site, log.clone(), tls, over_tcp);
            Some((Arc::new(shared), listeners))
        };
        Ok(HttpServer { plan, certificate, port, quic, tcp, log, objects, clock: Clock::start() })
    }

    /// Returns the listening port.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// Serves until `stop` is set. Writes one JSON line when it is ready, and one with totals at the end.
    ///
    /// # Errors
    /// An error of a socket or of the output.
    pub fn run(mut self, stop: &AtomicBool, screen: &mut dyn Write) -> Result<(), ProgramError> {
        let protocols: Vec<&str> =
            self.plan.protocols.iter().rev().map(|protocol| protocol.name()).collect();
        let mut ready = json!({
            "ready": true,
            "port": self.port,
            "listen": self.plan.listen,
            "protocols": protocols,
            "spki": self.certificate.spki,
            "fingerprint": self.certificate.fingerprint.to_string(),
        });
        if let Some(document) = self.objects.first() {
            ready["document"] = document.url.clone().into();
            ready["objects"] = json!(self.objects);
        }
        writeln!(screen, "{ready}")?;
        screen.flush()?;
        let failed = Mutex::new(None);
        let fail = |error: io::Error| {
            failed.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(error);
            stop.store(true, Ordering::Relaxed);
        };
        thread::scope(|scope| {
            for (driver, context) in &mut self.quic {
                scope.spawn(|| serve_quic(driver, context, stop).unwrap_or_else(fail));
            }
            if let Some((shared, listeners)) = self.tcp.take() {
                scope.spawn(|| tcp::run(shared, listeners, stop).unwrap_or_else(fail));
            }
        });
        if let Some(error) = failed.into_inner().unwrap_or_else(PoisonError::into_inner) {
            return Err(error.into());
        }
        let totals = self.log.totals();
        let usage = getrusage(UsageWho::RUSAGE_SELF).map_err(io::Error::from)?;
        let end = json!({
            "end": true,
            "wall_s": self.clock.now().0 as f64 / 1e9,
            "cpu_user_s": seconds(usage.user_time()),
            "cpu_system_s": seconds(usage.system_time()),
            "requests": totals.requests,
            "connections": {"quic": totals.quic_connections, "tcp": totals.tcp_connections},
            "body_bytes": totals.body_bytes,
        });
        writeln!(screen, "{end}")?;
        screen.flush()?;
        match self.log.write_error() {
            Some(why) => {
                Err(ProgramError::Run(format!("access_log: {why}; the log is incomplete")))
            }
            None => Ok(()),
        }
    }
}

fn seconds(time: TimeVal) -> f64 {
    time.tv_sec() as f64 + time.tv_usec() as f64 / 1e6
}

fn validate(plan: &HttpServerPlan) -> Result<(), ProgramError> {
    let wrong = |text: &str| Err(ProgramError::Input(text.to_owned()));
    if plan.listen.is_empty() {
        return wrong("listen: found no address, expected at least one");
    }
    if plan.protocols.is_empty() {
        return wrong("protocols: found none, expected some of h3, h2, http/1.1");
    }
    if plan.tls.early_data && !plan.tls.resumption {
        return wrong(
            "tls: found early_data without resumption, expected both: early data needs session tickets",
        );
    }
    if plan.certificate.is_some() && plan.certificate_bytes.is_some() {
        return wrong(
            "certificate_bytes: found with a certificate file, expected a self-signed certificate",
        );
    }
    let limits = &plan.limits;
    if limits.connections == 0 || limits.streams == 0 || limits.header_bytes < 1024 {
        return wrong(
            "limits: expected connections and streams of at least 1, header_bytes of at least 1024",
        );
    }
    Ok(())
}

fn addresses(listen: &[String]) -> Result<Vec<SocketAddr>, ProgramError> {
    let mut addresses = Vec::new();
    for text in listen {
        let mut found = text.to_socket_addrs().map_err(|error| {
            ProgramError::Input(format!(
                "--listen: found \"{text}\", expected ADDRESS:PORT: {error}"
            ))
        })?;
        let address = found.next();
        addresses.push(address.ok_or_else(|| {
            ProgramError::Input(format!(
                "--listen: found \"{text}\", expected an address of this host"
            ))
        })?);
    }
    Ok(addresses)
}

type BoundSockets = (u16, Vec<BatchedUdpSocket>, Vec<TcpListener>);

/// Binds all addresses for UDP, TCP or both. All addresses with port 0 get the same port.
fn bind(addresses: &[SocketAddr], udp: bool, tcp: bool) -> Result<BoundSockets, ProgramError> {
    let given = addresses.iter().map(SocketAddr::port).find(|port| *port != 0);
    let mut tries = 0;
    loop {
        match bind_once(addresses, given.unwrap_or(0), udp, tcp) {
            Err((_, error)) if given.is_none() && in_use(&error) && tries < MAX_BIND_ATTEMPTS => {
                tries += 1
            }
            Err((what, error)) => return Err(ProgramError::Input(bind_error(&what, &error))),
            Ok(bound) => return Ok(bound),
        }
    }
}

fn bind_once(
    addresses: &[SocketAddr],
    mut port: u16,
    udp: bool,
    tcp: bool,
) -> Result<BoundSockets, (String, io::Error)> {
    let (mut sockets, mut listeners) = (Vec::new(), Vec::new());
    let first = addresses[0];
    for address in addresses {
        let port_number = if address.port() == 0 { port } else { address.port() };
        let mut local = SocketAddr::new(address.ip(), port_number);
        if tcp {
            let name = format!("TCP {local}");
            let listener = TcpListener::bind(local).map_err(|error| (name.clone(), error))?;
            let bound = listener.local_addr().and_then(|bound| {
                listener.set_nonblocking(true)?;
                Ok(bound)
            });
            local.set_port(bound.map_err(|error| (name, error))?.port());
            listeners.push(listener);
        }
        if udp {
            let name = format!("UDP {local}");
            let socket =
                BatchedUdpSocket::bind(local, None).map_err(|error| (name.clone(), error))?;
            local.set_port(socket.local_addr().map_err(|error| (name, error))?.port());
            sockets.push(socket);
        }
        if port == 0 || *address == first {
            port = local.port();
        }
    }
    Ok((port, sockets, listeners))
}

fn in_use(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::AddrInUse
}

fn bind_error(what: &str, error: &io::Error) -> String {
    match error.kind() {
        io::ErrorKind::AddrInUse => format!(
            "--listen: {what} is in use, expected a free port; set another with --listen ADDRESS:PORT"
        ),
        io::ErrorKind::PermissionDenied => {
            format!("--listen: {what} requires root, expected a port from 1024 on")
        }
        io::ErrorKind::AddrNotAvailable => {
            format!("--listen: {what}: not an address of this host")
        }
        _ => format!("--listen: {what}: {error}"),
    }
}

/// Sets a kernel controller for a listener, and so for its connections.
fn set_controller(listener: &TcpListener, name: &str) -> Result<(), ProgramError> {
    let name = kernel_controller_name(name)
        .map_err(|why| ProgramError::Input(format!("tcp: congestion: {why}")))?;
    setsockopt(listener, sockopt::TcpCongestion, &name.into()).map_err(|error| {
        let known = std::fs::read_to_string("/proc/sys/net/ipv4/tcp_available_congestion_control");
        ProgramError::Input(format!(
            "tcp: congestion: found \"{name}\", not available in this kernel ({}); available: {}",
            error.desc(),
            known.unwrap_or_default().trim().replace(' ', ", ")
        ))
    })
}

fn build_driver(
    plan: &HttpServerPlan,
    certificate: &ServerCertificate,
    site: &Arc<Site>,
    log: &Arc<AccessLog>,
    socket: BatchedUdpSocket,
    prefix: String,
) -> Result<(QuicDriver, Arc<QuicServerContext>), ProgramError> {
    let tls =
        certificate.server_config(&[HttpVersion::Http3], plan.tls.resumption, plan.tls.early_data);
    let tls = TlsConfig::Server(Arc::new(tls.map_err(ProgramError::Input)?));
    let limits = plan.limits;
    let live = NetworkConfig {
        tls,
        max_connections: limits.connections,
        handshakes_before_retry: limits.handshakes,
    };
    let mut quic = plan.quic.clone();
    quic.stream_receive_window_bytes = quic.stream_receive_window_bytes.min(MAX_STREAM_WINDOW);
    quic.receive_window_bytes = quic.receive_window_bytes.min(MAX_CONNECTION_WINDOW);
    let idle = limits.idle_timeout_ns;
    quic.idle_timeout_ns =
        Some(quic.idle_timeout_ns.map_or(idle, |configured| configured.min(idle)));
    let context = Arc::new(QuicServerContext {
        site: site.clone(),
        log: log.clone(),
        clock: Clock::start(),
        header_bytes: limits.header_bytes,
        prefix,
        peers: Mutex::default(),
    });
    let shared = context.clone();
    let endpoint = QuicEndpoint::with_network(
        &live,
        &quic,
        Box::new(move |index| Box::new(Http3App::new(index, shared.clone()))),
        plan.congestion.controller_builder(&quic)?,
    );
    let mut endpoint = endpoint.map_err(ProgramError::Input)?;
    endpoint.set_max_bidi_streams(limits.streams);
    endpoint.enable_eviction();
    let mut driver = QuicDriver::new(endpoint, socket)?;
    // One clock for the transport and the log.
    driver.clock = context.clock;
    Ok((driver, context))
}

/// Serves QUIC on one socket until `stop` is set.
fn serve_quic(
    driver: &mut QuicDriver,
    context: &QuicServerContext,
    stop: &AtomicBool,
) -> io::Result<()> {
    let mut opened = 0;
    while !stop.load(Ordering::Relaxed) {
        driver.poll_once(Time::MAX)?;
        let now_opened = transport::Endpoint::opened(&driver.endpoint);
        let ended = driver.endpoint.take_closed();
        if now_opened > opened || !ended.is_empty() {
            let mut peers = context.peers.lock().unwrap_or_else(PoisonError::into_inner);
            for connection in driver.endpoint.take_changed() {
                if connection.number() >= opened {
                    let remote = connection.remote();
                    let remote = SocketAddr::new(remote.ip().to_canonical(), remote.port());
                    peers.insert(connection.number(), remote);
                }
            }
            for connection in &ended {
                peers.remove(&connection.number);
                if connection.connected_at.is_some() {
                    context.log.update_totals(|totals| totals.quic_connections += 1);
                }
            }
            opened = now_opened;
        }
    }
    let connected =
        driver.endpoint.live_connections().filter(|live| live.connected_at().is_some()).count()
            as u64;
    context.log.update_totals(|totals| totals.quic_connections += connected);
    let now = driver.clock.now();
    driver.endpoint.close(now, &mut driver.socket);
    driver.socket.flush();
    Ok(())
}
