//! Parameters of sessions: default limits, parameters from the driver, and those of the peer in the last session.

use std::sync::{Arc, Mutex, PoisonError};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::SharedByteQuota;
use super::messages::SessInit;

/// The default maximum segment length in bytes.
pub(super) const SEGMENT_BYTES: u64 = 1 << 16;
/// The default maximum bundle length in bytes.
pub(super) const TRANSFER_BYTES: u64 = 1 << 30;
/// The default limit of partially received bundles on one connection, in bytes.
pub(super) const INCOMING_BYTES: u64 = 1 << 30;
/// The maximum of transfers per stream, or bundles in datagrams, that wait for the store: some hundred bytes each.
pub(super) const MAX_UNANSWERED: usize = 4096;
/// The default response timeout. RFC 9174 section 4.1 permits at most a minute.
pub(super) const RESPONSE_TIMEOUT_NS: u64 = 60_000_000_000;

/// The TLS policy (RFC 9174 section 4.4).
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize, JsonSchema, PartialEq, Eq)]
#[serde(rename_all = "snake_case")]
pub enum TlsPolicy {
    /// No TLS.
    #[default]
    No,
    /// TLS if the peer supports it.
    Allow,
    /// No session without TLS.
    Require,
}

/// Parameters of a connection from the driver, beside the options of the CLA.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ConnectionParameters {
    /// The expected node ID of the peer. `None` accepts every peer.
    pub expected_peer: Option<String>,
    /// The quota for incoming bundles, shared with other connections of the node. `None` means no shared limit.
    pub shared_quota: Option<SharedByteQuota>,
    /// The initial numbers of LTP.
    pub initial_numbers: InitialNumbers,
}

/// Initial numbers that differ after every start and that an attacker cannot guess (RFC 5326 section 9.1).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct InitialNumbers {
    /// Microseconds at time zero: session numbers follow the clock.
    pub session_epoch_us: u64,
    /// The secret of initial serial numbers.
    pub serial_secret: u64,
}

/// The parameters of the peer in the last session of an interface.
#[derive(Clone, Debug, Default)]
pub struct RememberedParameters(Arc<Mutex<Option<SessInit>>>);

impl RememberedParameters {
    /// Builds the remembered parameters from a SESS_INIT message.
    pub fn new(init: SessInit) -> RememberedParameters {
        RememberedParameters(Arc::new(Mutex::new(Some(init))))
    }

    pub(super) fn get(&self) -> Option<SessInit> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    pub(super) fn set(&self, init: &SessInit) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(init.clone());
    }
}
