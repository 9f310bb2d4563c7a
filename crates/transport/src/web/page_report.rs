//! Reports of a browser about its loads, with the names of the Navigation Timing standard.

use units::Time;

/// One load of a page.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LoadReport {
    /// Number of the load, from 1.
    pub load: u32,
    /// Protocol of the main document: `http/1.1`, `h2` or `h3` (ALPN names). With redirects, connection and request are
    /// those of the first one; the response is the document's.
    pub protocol: &'static str,
    /// Time of the start.
    pub start: Time,
    /// connectStart: first packet of the main document's connection, or its first use if it was open before.
    pub connect_start: Option<Time>,
    /// connectEnd: transport and TLS allow the request.
    pub connect_end: Option<Time>,
    /// requestStart of the main document.
    pub request_start: Option<Time>,
    /// responseStart: the first byte of the main document's response.
    pub response_start: Option<Time>,
    /// responseEnd: its last byte.
    pub response_end: Option<Time>,
    /// The main document and all objects that depend on no other object have arrived (contentLoaded).
    pub content_loaded: Option<Time>,
    /// loadEventEnd: every object has arrived.
    pub load_event_end: Option<Time>,
    /// Objects that arrived complete.
    pub objects: u32,
    /// Bytes of bodies received.
    pub bytes: u64,
    /// Connections opened for the load, with attempts that lost a race.
    pub connections: u32,
}

/// One request of a load.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RequestReport {
    /// Number of the load, from 1.
    pub load: u32,
    /// Index of the object in the page.
    pub object: u32,
    /// Protocol: `http/1.1`, `h2` or `h3`.
    pub protocol: &'static str,
    /// Number of the connection in the flow.
    pub connection: u32,
    /// Time at which the browser queued the request.
    pub queued: Time,
    /// Time at which a connection got the request.
    pub sent: Option<Time>,
    /// First byte of the response.
    pub response_start: Option<Time>,
    /// Last byte of the response.
    pub end: Option<Time>,
    /// Bytes of the body received.
    pub bytes: u64,
}
