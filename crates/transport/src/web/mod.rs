//! Web pages: a browser and its servers over HTTP/1.1, HTTP/2 and HTTP/3, with TLS of true size.
//!
//! Reading order: `spec` (the page and its loads), `page_report`, `browser` with `profile` and `connect_request`
//! (`app` has its messages to connections). Then `http_connection`, `http1`, `http2`, `http3` (the wire, over `session`
//! of [`crate::tls`]), and `dual_transport`, `client`, `server` (the two sides).

mod browser;
mod client;
mod connect_request;
mod dual_transport;
mod http1;
mod http2;
mod http3;
mod http_connection;
mod page_report;
mod server;
mod spec;

pub use client::Client;
pub(crate) use connect_request::{ConnectRequest, Protocol};
pub(crate) use http_connection::HttpConnection;
pub use page_report::{LoadReport, RequestReport};
pub use server::Server;
use spec::check;
pub use spec::{
    HostSpec, HttpVersionPolicy, ObjectSpec, PageSpec, ProfileReuse, TlsSpec, TlsVersion, WebSpec,
};

use crate::{AppBuilder, Endpoint, quic::QuicEndpoint};

/// Builds a QUIC endpoint with a builder of its applications.
pub type QuicEndpointBuilder<'a> = &'a mut dyn FnMut(AppBuilder) -> Result<QuicEndpoint, String>;
/// Builds a TCP endpoint with a builder of its applications. Its connections have one stream, 0.
pub type TcpEndpointBuilder<'a> =
    &'a mut dyn FnMut(AppBuilder) -> Result<Box<dyn Endpoint>, String>;

impl WebSpec {
    /// Returns whether a load can use QUIC.
    pub fn uses_quic(&self) -> bool {
        matches!(self.http, HttpVersionPolicy::Http3 | HttpVersionPolicy::AltSvc)
    }

    /// Returns whether a load can use TCP.
    pub fn uses_tcp(&self) -> bool {
        self.http != HttpVersionPolicy::Http3 || self.page.hosts.iter().any(|host| !host.tls)
    }
}
