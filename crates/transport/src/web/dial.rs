//! A connection that the browser opens.

use units::Time;

/// Version of HTTP on a connection, and what carries it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Protocol {
    /// HTTP/1.1 over TCP without TLS.
    Plain,
    Http1,
    Http2,
    Http3,
}

impl Protocol {
    /// Its ALPN name (RFC 7301's registry).
    pub fn alpn(self) -> &'static str {
        match self {
            Protocol::Plain | Protocol::Http1 => "http/1.1",
            Protocol::Http2 => "h2",
            Protocol::Http3 => "h3",
        }
    }
}

/// What a connection is opened for.
#[derive(Clone, Copy, Debug)]
pub(super) struct Dial {
    /// The connection's number in reports.
    pub number: u32,
    /// Index of the host.
    pub host: u32,
    pub protocol: Protocol,
    /// A ticket is there: the TLS session is resumed.
    pub resume: bool,
    /// Early data may be sent.
    pub early: bool,
    /// Which profile of the run opens it; a session belongs to one profile.
    pub profile: u32,
    /// When it is opened.
    pub at: Time,
}
