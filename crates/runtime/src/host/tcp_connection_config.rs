//! Configuration of kernel TCP connections.

use std::net::TcpStream;
use std::sync::Arc;

use rustls::pki_types::ServerName;
use rustls::{ClientConfig, ServerConfig};
use transport::perf_load::RequestedController;
use units::Span;

use crate::peer_identity::ExpectedPeer;
use crate::tcp::TcpInfoLayout;

/// Keys of a connection that can start TLS ([`transport::Streams::start_tls`]).
#[derive(Clone, Debug)]
pub struct TlsKeys {
    /// Configuration of the client side.
    pub client: Arc<ClientConfig>,
    /// Configuration of the server side.
    pub server: Arc<ServerConfig>,
    /// The expected peer, `None` to accept any.
    pub expected_peer: Option<Arc<ExpectedPeer>>,
}

/// The protocol of the connections of an interface.
#[derive(Clone, Debug)]
pub enum TcpProtocol {
    /// Plain bytes from the start. Applications can start TLS if there are keys.
    Plain(Option<TlsKeys>),
    /// TLS from the start, for opened connections: the configuration, and the name of the server.
    TlsClient(Arc<ClientConfig>, ServerName<'static>),
    /// For accepted connections: the application starts after the first byte of the client, which selects TLS or plain
    /// bytes if both are possible.
    FirstByte {
        /// Plain bytes are possible.
        plain: bool,
        /// The configuration of TLS, if it is possible.
        tls: Option<Arc<ServerConfig>>,
    },
}

/// Installs a requested controller on a socket, or returns the reason of the refusal.
pub type ControllerSetter =
    Arc<dyn Fn(&TcpStream, &RequestedController) -> Result<(), String> + Send + Sync>;

/// Configuration shared by all connections of an interface.
pub struct TcpConnectionConfig {
    /// The layout of the kernel's TCP_INFO.
    pub info_layout: TcpInfoLayout,
    /// Timeouts of a connection.
    pub timeouts: ConnectionTimeouts,
    /// The protocol from the start.
    pub protocol: TcpProtocol,
    /// Installs a controller that a peer requests, `None` if peers request none.
    pub controller_setter: Option<ControllerSetter>,
    /// A connection ends when the FIN of this side is sent, not when it is acknowledged.
    pub closes_after_fin: bool,
    /// Data received before a reset is read before the connection ends.
    pub reads_before_reset: bool,
    /// The state at the end is queried.
    pub keeps_reports: bool,
}

/// Timeouts of a connection.
#[derive(Clone, Copy, Debug)]
pub struct ConnectionTimeouts {
    /// The limit of a TCP or TLS handshake.
    pub handshake: Span,
    /// The limit without progress, `None` for no limit.
    pub idle: Option<Span>,
}
