//! What a browser has seen of its loads, with the names of the Navigation Timing standard.

use units::Time;

/// One load of a page.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LoadReport {
    /// Which load, from 1.
    pub load: u32,
    /// Protocol of the main document: `http/1.1`, `h2` or `h3` (ALPN's names). Of a document behind redirects
    /// the connection and the request are those of the first one, the response is its own.
    pub protocol: &'static str,
    /// When the load began.
    pub start: Time,
    /// connectStart: the first packet of the main document's connection; its use, if it was open.
    pub connect_start: Option<Time>,
    /// connectEnd: transport and TLS let the request go.
    pub connect_end: Option<Time>,
    /// requestStart of the main document.
    pub request_start: Option<Time>,
    /// responseStart: the first byte of the main document's response.
    pub response_start: Option<Time>,
    /// responseEnd: its last byte.
    pub response_end: Option<Time>,
    /// The main document and everything that depends on nothing else has come
    /// (contentLoaded).
    pub content_loaded: Option<Time>,
    /// loadEventEnd: every object has come.
    pub load_event_end: Option<Time>,
    /// Objects that came whole.
    pub objects: u32,
    /// Bytes of bodies that came.
    pub bytes: u64,
    /// Connections opened for it, attempts that lost a race included.
    pub connections: u32,
}

/// One request of a load.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RequestReport {
    /// Which load, from 1.
    pub load: u32,
    /// Index of the object in the page.
    pub object: u32,
    /// Protocol: `http/1.1`, `h2` or `h3`.
    pub protocol: &'static str,
    /// Which connection of the flow.
    pub connection: u32,
    /// When the browser knew that it wants it.
    pub queued: Time,
    /// When the request was given to its connection.
    pub sent: Option<Time>,
    /// First byte of the response.
    pub response_start: Option<Time>,
    /// Last byte of the response.
    pub end: Option<Time>,
    /// Bytes of its body that have come.
    pub bytes: u64,
}
