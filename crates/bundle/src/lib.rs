//! Bundle nodes (RFC 9171): store-and-forward routing by contact plans over convergence-layer adapters (CLAs), sans-IO.
//! Time is an argument, and storage is asynchronous.
//!
//! Reading order: `wire` (bundle format), `cla` (CLAs and their sessions), `spec`, `integrity_spec` (policy and keys).
//! The last is `bpa` (bundle protocol agent, its store, and the node with its connections).

mod bpa;
pub mod cla;
mod integrity_spec;
mod spec;
pub mod wire;
#[cfg(test)]
mod wire_tests;

use bytes::Bytes;

pub use bpa::{
    BpaAction, BundleEvent, BundleEventKind, BundleLabel, BundleMetadata, BundleNode,
    BundleProtocolAgent, ClaInterface, FilePart, IncomingSessions, MemoryStore, NeighbourConfig,
    ReportRecord, RouteRecord, SessionId, Store, StoreCompletion, StoreRequest,
};
pub use cla::{
    DeliveryMode, LinkState, Mailbox, RefusalReason, Role, Session, SessionApp, SessionCommand,
    SessionEvent, Transfer,
};
pub use integrity_spec::{
    BibCheckSpec, BibSignSpec, IntegrityScope, IntegritySpec, Secret, Secrets, ShaVariant,
    UnverifiedAction,
};
pub use spec::{
    BundleNodeSpec, ClaLinkSpec, ContactStartSpec, DtnPerfAmount, DtnPerfPace, DtnPerfSpec,
    DtnSpec, EpidemicSpec, NodeOutageSpec, PlanChangeSpec, StaticRouteSpec, StatusReportSpec,
};

/// The shared source of all zero chunks, which need no further memory. Its size fits the processor cache while a
/// transport copies it into packets.
pub(crate) static ZEROS: [u8; 32 << 10] = [0; 32 << 10];

/// Returns `bytes` zeros in chunks.
pub(crate) fn zeros(bytes: u64) -> impl Iterator<Item = Bytes> {
    let whole = ZEROS.len() as u64;
    let rest = (bytes % whole) as usize;
    let wholes = (0..bytes / whole).map(|_| Bytes::from_static(&ZEROS));
    wholes.chain((rest > 0).then(|| Bytes::from_static(&ZEROS[..rest])))
}
