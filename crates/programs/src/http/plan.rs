//! The plan of the page server.

use std::collections::BTreeMap;
use std::path::PathBuf;

use serde::Deserialize;
use transport::quic::QuicSpec;
use transport::web::PageSpec;

use crate::perf::{CertificateFiles, CongestionPlan};

/// A page server.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct HttpServerPlan {
    /// Addresses and ports to listen on, each for TCP and UDP. Port 0 selects a port that is free for both, the same
    /// for all addresses.
    pub listen: Vec<String>,
    /// Certificate and key. `None`: a self-signed one for this run with the name `localhost` alone. A browser then
    /// never shares a connection between two hosts of the page (RFC 9113 section 9.1.1).
    #[serde(default)]
    pub certificate: Option<CertificateFiles>,
    /// Length of the self-signed certificate in DER bytes, `None` for the minimum. A public chain has about 2300 bytes
    /// (Nawrocki et al., CoNEXT 2022).
    #[serde(default)]
    pub certificate_bytes: Option<u32>,
    /// The served content.
    pub content: SiteContent,
    /// The supported protocols.
    #[serde(default = "all")]
    pub protocols: Vec<HttpVersion>,
    /// Responses over TCP advertise HTTP/3 at the same port (RFC 7838).
    #[serde(default = "yes")]
    pub alt_svc: bool,
    /// Options of QUIC. The server needs small receive windows: they are limited to 64 kB per stream and 1 MB per
    /// connection.
    pub quic: QuicSpec,
    /// The controller of QUIC.
    pub congestion: CongestionPlan,
    /// Options of TCP.
    #[serde(default)]
    pub tcp: HttpTcpPlan,
    /// Options of TLS.
    #[serde(default)]
    pub tls: HttpTlsPlan,
    /// Limits of the server.
    #[serde(default)]
    pub limits: HttpServerLimits,
    /// A file with one JSON line per request, `None` for no log.
    #[serde(default)]
    pub access_log: Option<PathBuf>,
}

/// The served content: a page or a folder.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SiteContent {
    /// A page of a scenario, generated with exact sizes.
    #[serde(default)]
    pub page: Option<PageSpec>,
    /// Name and port of each host of the page in URLs, by label. The default is LABEL.example and the server port.
    #[serde(default)]
    pub authorities: BTreeMap<String, String>,
    /// A folder of files. No file outside it is served, through any link.
    #[serde(default)]
    pub root: Option<PathBuf>,
}

/// A version of HTTP, by its ALPN.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq, PartialOrd, Ord)]
pub enum HttpVersion {
    /// HTTP/1.1 over TLS over TCP.
    #[serde(rename = "http/1.1")]
    Http1,
    /// HTTP/2 over TLS over TCP.
    #[serde(rename = "h2")]
    Http2,
    /// HTTP/3 over QUIC.
    #[serde(rename = "h3")]
    Http3,
}

impl HttpVersion {
    /// Returns the ALPN.
    pub fn name(self) -> &'static str {
        match self {
            HttpVersion::Http1 => "http/1.1",
            HttpVersion::Http2 => "h2",
            HttpVersion::Http3 => "h3",
        }
    }
}

/// Options of TCP. The initial window is set by the kernel's routes.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct HttpTcpPlan {
    /// The kernel's controller, by its name in a scenario; `None` for the kernel's default.
    #[serde(default)]
    pub congestion: Option<String>,
    /// Maximum segment size, which is also announced; `None` for the limit of the path.
    #[serde(default)]
    pub mss_bytes: Option<u32>,
}

/// Options of TLS.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct HttpTlsPlan {
    /// Session tickets are issued and accepted.
    #[serde(default = "yes")]
    pub resumption: bool,
    /// 0-RTT of QUIC is accepted. An observer can replay such a request; every response here can be repeated safely.
    #[serde(default)]
    pub early_data: bool,
}

impl Default for HttpTlsPlan {
    fn default() -> HttpTlsPlan {
        HttpTlsPlan { resumption: true, early_data: false }
    }
}

/// Limits of a server.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct HttpServerLimits {
    /// Concurrent connections, separately for TCP and QUIC; more are refused.
    pub connections: usize,
    /// Concurrent QUIC handshakes before clients have to validate their address (Retry).
    pub handshakes: usize,
    /// Concurrent requests per connection (RFC 9114 section 6.1: at least 100).
    pub streams: u32,
    /// Bytes of a request header (RFC 9114 section 4.2.2 adds 32 for each field).
    pub header_bytes: u32,
    /// Timeout in ns of a TLS handshake over TCP, and of a header of HTTP/1.1.
    pub handshake_timeout_ns: u64,
    /// Timeout in ns of a connection without traffic.
    pub idle_timeout_ns: u64,
}

impl Default for HttpServerLimits {
    fn default() -> HttpServerLimits {
        HttpServerLimits {
            connections: 256,
            handshakes: 32,
            streams: 100,
            header_bytes: 16 << 10,
            handshake_timeout_ns: 10_000_000_000,
            idle_timeout_ns: 60_000_000_000,
        }
    }
}

fn all() -> Vec<HttpVersion> {
    vec![HttpVersion::Http3, HttpVersion::Http2, HttpVersion::Http1]
}

fn yes() -> bool {
    true
}
