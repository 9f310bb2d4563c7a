//! TCPCLv4 (RFC 9174) on one TCP connection, with TLS where its driver has keys.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use transport::{AppEvent, Streams};
use units::{Span, Time};

use super::assembly::SharedRoom;
use super::exchange::{Exchange, Layout, Setup};
use super::messages::{Dialect, Init};
use super::{INCOMING_BYTES, PATIENCE_NS, SEGMENT_BYTES, TRANSFER_BYTES};
use crate::{Role, Said, Session, Told};

/// The port that IANA has given it (section 9.1).
pub const PORT: u16 = 4556;

/// Whether a connection is secured (RFC 9174 section 4.4).
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize, JsonSchema, PartialEq, Eq)]
#[serde(rename_all = "snake_case")]
pub enum TlsPolicy {
    /// It is not.
    #[default]
    No,
    /// If the peer can do it.
    Allow,
    /// If the peer cannot, there is no session.
    Require,
}

/// What a driver says of a connection, beside its layer's options.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Terms {
    /// The node id of the peer: no other is taken. None: whoever says what it is.
    pub peer: Option<String>,
    /// Room for bundles that are being received, with the node's other connections. None: each has its own.
    pub room: Option<SharedRoom>,
    /// What numbers of LTP begin with.
    pub first: First,
}

/// What numbers begin with that are to be others after every start, and that no stranger guesses (RFC 5326 section 9.1).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct First {
    /// Microseconds at the zero of time: session numbers go by the clock.
    pub session: u64,
    /// Mixed into serial numbers.
    pub secret: u64,
}

/// Options of TCPCLv4.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema, PartialEq, Eq)]
#[serde(deny_unknown_fields, default)]
pub struct TcpclSpec {
    /// Seconds after which a side says something at the latest (section 5.1.1); 0: it need not.
    pub keepalive_s: u16,
    /// Longest segment that is sent, and that is taken.
    pub segment_bytes: u64,
    /// Longest bundle that is taken.
    pub transfer_bytes: u64,
    /// Bytes of bundles on the way in at once.
    pub incoming_bytes: u64,
    /// How long the peer may take to say who it is, and to answer the session's end.
    pub patience_ns: u64,
    /// Other than no where the transport has keys.
    pub tls: TlsPolicy,
}

impl Default for TcpclSpec {
    fn default() -> TcpclSpec {
        TcpclSpec {
            keepalive_s: 0,
            segment_bytes: SEGMENT_BYTES,
            transfer_bytes: TRANSFER_BYTES,
            incoming_bytes: INCOMING_BYTES,
            patience_ns: PATIENCE_NS,
            tls: TlsPolicy::No,
        }
    }
}

/// A session.
pub struct Tcpcl(Exchange);

impl Tcpcl {
    /// Of the node that is called `node`.
    pub fn new(spec: &TcpclSpec, role: Role, node: &str, terms: Terms) -> Tcpcl {
        Tcpcl(Exchange::new(Setup {
            dialect: Dialect::Tcpcl,
            layout: Layout::Signal,
            role,
            init: Init {
                keepalive_s: spec.keepalive_s,
                segment_mru: spec.segment_bytes,
                datagram_mru: 0,
                transfer_mru: spec.transfer_bytes,
                node: node.to_owned(),
                problem: None,
            },
            segment_bytes: spec.segment_bytes,
            incoming_bytes: spec.incoming_bytes,
            patience: Span(spec.patience_ns),
            tls: spec.tls,
            terms,
        }))
    }
}

impl Session for Tcpcl {
    fn on(&mut self, now: Time, event: AppEvent, streams: &mut dyn Streams, said: &mut Vec<Said>) {
        self.0.on(now, event, streams, said);
    }

    fn hear(&mut self, now: Time, told: Told, streams: &mut dyn Streams, said: &mut Vec<Said>) {
        self.0.hear(now, told, streams, said);
    }

    fn wake_at(&self) -> Time {
        self.0.wake_at()
    }

    fn has_data(&self) -> bool {
        self.0.has_data()
    }
}
