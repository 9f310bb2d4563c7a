//! A request to open a connection, from the browser.

use units::Time;

/// Version of HTTP on a connection, and its transport.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Protocol {
    /// HTTP/1.1 over TCP without TLS.
    Plain,
    Http1,
    Http2,
    Http3,
}

impl Protocol {
    /// Returns its ALPN name (registry of RFC 7301).
    pub fn alpn(self) -> &'static str {
        match self {
            Protocol::Plain | Protocol::Http1 => "http/1.1",
            Protocol::Http2 => "h2",
            Protocol::Http3 => "h3",
        }
    }
}

/// Parameters of a connection to open.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ConnectRequest {
    /// The connection's number in reports.
    pub number: u32,
    /// Index of the host.
    pub host: u32,
    pub protocol: Protocol,
    /// A ticket is available: the TLS session is resumed.
    pub resume: bool,
    /// Early data may be sent.
    pub early_data: bool,
    /// Number of the profile in the run; a session belongs to one profile.
    pub profile: u32,
    /// Time of the opening.
    pub opened_at: Time,
}
