//! The sockets of a measuring server.

use std::io;
use std::net::{Ipv4Addr, SocketAddr, TcpListener, ToSocketAddrs};

use runtime::BatchedUdpSocket;
use runtime::host::QuicHostConfig;
use transport::quic::TlsConfig;

use super::super::PerfServerPlan;
use super::super::tcp_options::PerfTcpOptions;
use crate::ProgramError;

/// The maximum of attempts to find a port that is free for UDP and TCP, if the plan selects none.
const MAX_BIND_ATTEMPTS: usize = 16;

/// Builds the QUIC socket of a server.
pub(super) fn quic_config(
    plan: &PerfServerPlan,
    tls: TlsConfig,
    socket: BatchedUdpSocket,
) -> Result<QuicHostConfig, ProgramError> {
    let name = plan.congestion.name.clone();
    let builder = plan.congestion.controller_builder(&plan.quic)?;
    Ok(QuicHostConfig {
        max_connections: if plan.once { 1 } else { plan.limits.connections },
        evicts_slow: !plan.once,
        max_handshakes: plan.limits.handshakes,
        requested_controllers: Some((name, plan.requested_controller_builder())),
        keeps_reports: true,
        ..QuicHostConfig::new(socket, tls, plan.quic.clone(), builder)
    })
}

/// Binds the sockets of a server at one port number. TCP can be absent if it is not needed.
pub(super) fn bind_sockets(
    plan: &PerfServerPlan,
    address: SocketAddr,
    options: Option<&PerfTcpOptions>,
    needs_tcp: bool,
) -> Result<(Option<BatchedUdpSocket>, Option<TcpListener>), ProgramError> {
    for attempt in 1.. {
        let (mut socket, mut at) = (None, address);
        if plan.transport.has_quic() {
            let bound = bind_with_fallback(at, "UDP", |at| BatchedUdpSocket::bind(at, None))?;
            at = bound.local_addr()?;
            socket = Some(bound);
        }
        let listener =
            options.map(|options| bind_with_fallback(at, "TCP", |at| options.listen(at)));
        match listener.transpose() {
            Ok(listener) => return Ok((socket, listener)),
            Err(_) if address.port() == 0 && attempt < MAX_BIND_ATTEMPTS => {}
            Err(failure) if needs_tcp => return Err(failure),
            // TCP would only refuse clients here, so the server can run without it.
            Err(_) => return Ok((socket, None)),
        }
    }
    unreachable!("the last attempt returns")
}

/// Resolves the value of `--listen`.
pub(super) fn resolve_listen(text: &str) -> Result<SocketAddr, ProgramError> {
    let addresses = text.to_socket_addrs().map_err(|error| {
        ProgramError::Input(format!("--listen: found \"{text}\", expected ADDRESS:PORT: {error}"))
    })?;
    addresses.into_iter().next().ok_or_else(|| {
        ProgramError::Input(format!("--listen: found \"{text}\", expected an address of this host"))
    })
}

/// Opens a socket at `address` by `bind`.
fn bind_with_fallback<T>(
    address: SocketAddr,
    what: &str,
    bind: impl Fn(SocketAddr) -> io::Result<T>,
) -> Result<T, ProgramError> {
    let bound = match bind(address) {
        // A machine without IPv6.
        Err(error)
            if error.raw_os_error() == Some(nix::errno::Errno::EAFNOSUPPORT as i32)
                && address.ip().is_unspecified() =>
        {
            bind(SocketAddr::new(Ipv4Addr::UNSPECIFIED.into(), address.port()))
        }
        other => other,
    };
    bound.map_err(|error| {
        let (why, port) = (error.kind(), address.port());
        ProgramError::Input(match why {
            io::ErrorKind::AddrInUse => {
                format!(
                    "--listen: {what} port {port} is in use; set another with --listen ADDRESS:PORT"
                )
            }
            io::ErrorKind::PermissionDenied => {
                format!("--listen: port {port} requires root; use a port from 1024 on")
            }
            io::ErrorKind::AddrNotAvailable => {
                format!("--listen: {} is not an address of this host", address.ip())
            }
            _ => format!("--listen {address}: {error}"),
        })
    })
}
