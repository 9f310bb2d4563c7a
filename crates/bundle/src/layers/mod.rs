//! The convergence layers: which one, its options, and what each makes of a connection.
//!
//! Each gives a [`crate::Session`] from its options, what this node says of itself and its [`crate::Role`], and says
//! what it needs of a transport: QUIC with so many unidirectional streams and datagrams
//! ([`transport::quic::Needs`]), TCP, or UDP.
//!
//! Reading order: `messages` (bytes), `inflow` and `assembly` (what arrives, in order and put together), `exchange` (the session
//! that TCPCLv4 and QUICCL share), `tcpcl`, `quiccl`, `qubicle`, `mtcp`; `ltp` (over UDP); `outlook` (what a
//! contact plan makes of timers and windows).

mod assembly;
mod exchange;
mod inflow;
pub mod ltp;
pub mod messages;
mod mtcp;
mod outlook;
mod qubicle;
mod quiccl;
mod tcpcl;

use std::sync::{Arc, Mutex, PoisonError};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use transport::quic::Needs;

pub use assembly::SharedRoom;
pub use ltp::{Colour, Ltp, LtpSpec};
pub use mtcp::{Mtcp, MtcpSpec};
pub use outlook::Outlook;
pub use qubicle::{Qubicle, QubicleSpec, code as qubicle_code};
pub use quiccl::{Quiccl, QuicclSpec, Streaming};
pub use tcpcl::{First, Tcpcl, TcpclSpec, Terms, TlsPolicy};

use crate::{Role, Session};

/// Longest segment where nothing is said.
const SEGMENT_BYTES: u64 = 1 << 16;
/// Longest bundle where nothing is said.
const TRANSFER_BYTES: u64 = 1 << 30;
/// Bytes of bundles on the way in on one connection where nothing is said.
const INCOMING_BYTES: u64 = 1 << 30;
/// Transfers of a stream, or bundles in datagrams, that may wait for the store: some hundred bytes each.
const MOST_UNANSWERED: usize = 4096;
/// Longest wait for the peer's word where nothing is said: RFC 9174 section 4.1 has at most a minute.
const PATIENCE_NS: u64 = 60_000_000_000;

/// What peers have said of themselves in the last session of an end.
#[derive(Clone, Debug, Default)]
pub struct Memory(Arc<Mutex<Option<messages::Init>>>);

impl Memory {
    /// Of a peer that has said this.
    pub fn of(init: messages::Init) -> Memory {
        Memory(Arc::new(Mutex::new(Some(init))))
    }

    fn get(&self) -> Option<messages::Init> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn set(&self, init: &messages::Init) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(init.clone());
    }
}

/// A convergence layer and its options.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema, PartialEq, Eq)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum LayerSpec {
    /// draft-caini-dtn-quiccl-01.
    Quiccl(QuicclSpec),
    /// draft-ek-dtn-qubicle-02.
    Qubicle(QubicleSpec),
    /// RFC 9174.
    Tcpcl(TcpclSpec),
    /// draft-ietf-dtn-mtcpcl.
    Mtcp(MtcpSpec),
    /// RFC 5326 over UDP (RFC 7122).
    Ltp(LtpSpec),
}

/// What a layer goes over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Over {
    /// QUIC, with what the layer needs of it.
    Quic(Needs),
    /// TCP.
    Tcp,
    /// UDP, without connections.
    Udp,
}

impl LayerSpec {
    /// A session of the node that is called `node`.
    pub fn session(&self, role: Role, node: &str) -> Box<dyn Session> {
        self.session_with(role, node, Terms::default())
    }

    /// The same, and what its driver says of the connection.
    pub fn session_with(&self, role: Role, node: &str, terms: Terms) -> Box<dyn Session> {
        match self {
            LayerSpec::Quiccl(spec) => Box::new(Quiccl::new(spec, role, node, terms)),
            LayerSpec::Qubicle(spec) => Box::new(Qubicle::new(spec, terms)),
            LayerSpec::Tcpcl(spec) => Box::new(Tcpcl::new(spec, role, node, terms)),
            LayerSpec::Mtcp(spec) => Box::new(Mtcp::new(spec, role, terms)),
            LayerSpec::Ltp(spec) => Box::new(Ltp::new(spec, node, &terms)),
        }
    }

    /// The same on a connection that may begin with early data, in which bundles go where the layer takes them.
    pub fn resuming(&self, role: Role, node: &str, memory: &Memory) -> Box<dyn Session> {
        match self {
            LayerSpec::Quiccl(spec) => {
                Box::new(Quiccl::new(spec, role, node, Terms::default()).resuming(memory))
            }
            _ => self.session(role, node),
        }
    }

    /// What it goes over.
    pub fn over(&self) -> Over {
        match self {
            LayerSpec::Quiccl(spec) => Over::Quic(spec.needs()),
            LayerSpec::Qubicle(spec) => Over::Quic(spec.needs()),
            LayerSpec::Tcpcl(_) | LayerSpec::Mtcp(_) => Over::Tcp,
            LayerSpec::Ltp(_) => Over::Udp,
        }
    }

    /// Whether its sessions begin TLS by themselves.
    pub fn tls(&self) -> TlsPolicy {
        match self {
            LayerSpec::Tcpcl(spec) => spec.tls,
            _ => TlsPolicy::No,
        }
    }

    /// What it needs of QUIC; none: it does not go over it.
    pub fn needs(&self) -> Option<Needs> {
        match self.over() {
            Over::Quic(needs) => Some(needs),
            Over::Tcp | Over::Udp => None,
        }
    }

    /// Whether its sessions want to know what the plan says of the way ([`crate::Told::Way`]).
    pub fn goes_by_plan(&self) -> bool {
        matches!(self, LayerSpec::Ltp(_))
    }

    /// The protocol's name in the handshake; none but over QUIC.
    pub fn alpn(&self) -> Option<&'static str> {
        match self {
            LayerSpec::Quiccl(_) => Some(quiccl::ALPN),
            LayerSpec::Qubicle(_) => Some(qubicle::ALPN),
            LayerSpec::Tcpcl(_) | LayerSpec::Mtcp(_) | LayerSpec::Ltp(_) => None,
        }
    }

    /// Port where nothing is said; none where no number is given to it.
    pub fn port(&self) -> Option<u16> {
        match self {
            LayerSpec::Quiccl(_) => Some(quiccl::PORT),
            LayerSpec::Tcpcl(_) => Some(tcpcl::PORT),
            LayerSpec::Ltp(_) => Some(ltp::PORT),
            LayerSpec::Qubicle(_) | LayerSpec::Mtcp(_) => None,
        }
    }

    /// Whether bundles go both ways on one connection.
    pub fn is_both_ways(&self) -> bool {
        !matches!(self, LayerSpec::Mtcp(_))
    }

    /// Whether bundles may go with the first packet of a connection that is resumed.
    pub fn takes_early_data(&self) -> bool {
        matches!(self, LayerSpec::Quiccl(_))
    }
}
