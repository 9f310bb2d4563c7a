//! The socket of a measuring client.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::Arc;

use runtime::host::{ConnectionTimeouts, QuicHostConfig, TLS_RECORD, TcpHostConfig, TcpProtocol};
use runtime::{BatchedUdpSocket, Clock};
use rustls::ClientConfig;
use rustls::pki_types::ServerName;
use transport::StreamSpec;
use transport::perf_load::AmountSpec;
use transport::quic::TlsConfig;
use units::Span;

use super::super::PerfClientPlan;
use super::super::qlog::QlogWriter;
use super::super::tcp_options::PerfTcpOptions;
use crate::ProgramError;

/// Builds the QUIC socket of a client, and its qlog.
pub(super) fn quic_socket(
    plan: &PerfClientPlan,
    remote: SocketAddr,
    tls: TlsConfig,
    clock: Clock,
) -> Result<(QuicHostConfig, Option<QlogWriter>), ProgramError> {
    let mut spec = plan.quic.clone();
    spec.header_bytes = if remote.is_ipv4() { 28 } else { 48 };
    let builder = plan.congestion.controller_builder(&spec)?;
    let any: IpAddr = match remote {
        SocketAddr::V4(_) => Ipv4Addr::UNSPECIFIED.into(),
        SocketAddr::V6(_) => Ipv6Addr::UNSPECIFIED.into(),
    };
    let mut socket = BatchedUdpSocket::bind(SocketAddr::new(any, 0), Some(remote))
        .map_err(|error| ProgramError::Run(format!("{remote} cannot be reached: {error}")))?;
    let mut qlog = None;
    if let Some(folder) = &plan.report.qlog {
        let made = QlogWriter::new(folder.clone(), "client", &plan.quic, clock)?;
        socket.set_observer(Box::new(made.clone()));
        qlog = Some(made);
    }
    let config = QuicHostConfig {
        server_name: Some(plan.host.clone()),
        keeps_reports: true,
        ..QuicHostConfig::new(socket, tls, spec, builder)
    };
    Ok((config, qlog))
}

/// Builds the TCP configuration of a client; `config` is that of TLS.
pub(super) fn tcp_socket(
    plan: &PerfClientPlan,
    options: PerfTcpOptions,
    remote: SocketAddr,
    config: Option<Arc<ClientConfig>>,
) -> TcpHostConfig {
    let idle = Span(plan.tcp.idle_timeout_ns);
    let handshake = idle.min(Span(plan.timeout_ns));
    let timeouts = ConnectionTimeouts { handshake, idle: Some(idle) };
    let name = ServerName::try_from(plan.host.clone())
        .unwrap_or_else(|_| ServerName::IpAddress(remote.ip().into()));
    TcpHostConfig {
        protocol: match config {
            Some(config) => TcpProtocol::TlsClient(config, name),
            None => TcpProtocol::Plain(None),
        },
        closes_after_fin: true,
        reads_before_reset: true,
        keeps_reports: true,
        ..TcpHostConfig::new(None, options.into_socket_options(), timeouts, 0)
    }
}

/// Checks that a server cannot interpret the first byte of a size as TLS.
pub(super) fn check_size(stream: &StreamSpec) -> Result<(), ProgramError> {
    match stream.amount {
        AmountSpec::Data { down_bytes, .. } if down_bytes.to_be_bytes()[0] == TLS_RECORD => {
            Err(ProgramError::Input(format!(
                "LOAD: found a response of {down_bytes} bytes, expected less than 1.5e18 over TCP"
            )))
        }
        _ => Ok(()),
    }
}
