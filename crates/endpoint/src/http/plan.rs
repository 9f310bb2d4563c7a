//! What the server is asked to do.

use std::collections::BTreeMap;
use std::path::PathBuf;

use serde::Deserialize;
use transport::quic::QuicSpec;
use transport::web::PageSpec;

use crate::perf::{CertificateFiles, CongestionPlan};

/// A page server.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ServePlan {
    /// Addresses and ports to listen at, each for TCP and UDP. Port 0: one that is free for both, the same
    /// for all.
    pub listen: Vec<String>,
    /// Certificate and key; none: self-signed, for this run, in the name of `localhost` alone, so that a
    /// browser never shares a connection between two hosts of the page (RFC 9113 section 9.1.1).
    #[serde(default)]
    pub certificate: Option<CertificateFiles>,
    /// Bytes of the self-signed certificate, in DER; none: as few as it has. A public chain has some 2300
    /// (Nawrocki et al., CoNEXT 2022).
    #[serde(default)]
    pub certificate_bytes: Option<u32>,
    /// What is served.
    pub content: Content,
    /// Which protocols are spoken.
    #[serde(default = "all")]
    pub protocols: Vec<Protocol>,
    /// Responses over TCP advertise HTTP/3 at the same port (RFC 7838).
    #[serde(default = "yes")]
    pub alt_svc: bool,
    /// Options of QUIC. A server of pages needs small windows for what it receives: they are cut to 64 kB a
    /// stream and 1 MB a connection.
    pub quic: QuicSpec,
    /// QUIC's controller.
    pub congestion: CongestionPlan,
    /// Options of TCP.
    #[serde(default)]
    pub tcp: TcpPlan,
    /// Options of TLS.
    #[serde(default)]
    pub tls: TlsPlan,
    /// How much it takes on.
    #[serde(default)]
    pub limits: ServeLimits,
    /// File for one JSON line a request; none: no log.
    #[serde(default)]
    pub access_log: Option<PathBuf>,
}

/// What is served: a page or a folder.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Content {
    /// A page of a scenario: made up here, with exact sizes.
    #[serde(default)]
    pub page: Option<PageSpec>,
    /// Name and port of each of the page's hosts in URLs, by its label; without an entry LABEL.example and
    /// the port.
    #[serde(default)]
    pub authorities: BTreeMap<String, String>,
    /// A folder of files; nothing outside of it is served, by whatever link.
    #[serde(default)]
    pub root: Option<PathBuf>,
}

/// A version of HTTP, by its ALPN.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq, PartialOrd, Ord)]
pub enum Protocol {
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

impl Protocol {
    /// Its ALPN.
    pub fn name(self) -> &'static str {
        match self {
            Protocol::Http1 => "http/1.1",
            Protocol::Http2 => "h2",
            Protocol::Http3 => "h3",
        }
    }
}

/// Options of TCP; its initial window is a matter of the kernel's routes.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TcpPlan {
    /// The kernel's controller, by its name in a scenario; none: the one it has by default.
    #[serde(default)]
    pub congestion: Option<String>,
    /// Largest segment, which is announced as well; none: what the way lets pass.
    #[serde(default)]
    pub mss_bytes: Option<u32>,
}

/// Options of TLS.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TlsPlan {
    /// Tickets are given out and taken.
    #[serde(default = "yes")]
    pub resumption: bool,
    /// QUIC's 0-RTT is taken. A request may then be replayed by whoever saw it; every answer here may be
    /// given twice.
    #[serde(default)]
    pub early_data: bool,
}

impl Default for TlsPlan {
    fn default() -> TlsPlan {
        TlsPlan { resumption: true, early_data: false }
    }
}

/// Bounds of a server.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct ServeLimits {
    /// Connections at once, over TCP and over QUIC each; more are refused.
    pub connections: usize,
    /// QUIC handshakes under way before clients have to prove their address (Retry).
    pub handshakes: usize,
    /// Requests at once on a connection (RFC 9114 section 6.1: at least 100).
    pub streams: u32,
    /// Bytes of a request's header (RFC 9114 section 4.2.2 counts 32 more for each field).
    pub header_bytes: u32,
    /// Longest TLS handshake over TCP, and longest header of HTTP/1.1.
    pub handshake_timeout_ns: u64,
    /// Longest time without a byte on a connection.
    pub idle_timeout_ns: u64,
}

impl Default for ServeLimits {
    fn default() -> ServeLimits {
        ServeLimits {
            connections: 256,
            handshakes: 32,
            streams: 100,
            header_bytes: 16 << 10,
            handshake_timeout_ns: 10_000_000_000,
            idle_timeout_ns: 60_000_000_000,
        }
    }
}

fn all() -> Vec<Protocol> {
    vec![Protocol::Http3, Protocol::Http2, Protocol::Http1]
}

fn yes() -> bool {
    true
}
