//! Bundle nodes (RFC 9171): store-and-forward routing by contact plans over convergence-layer adapters (CLAs), sans-IO.
//! Time is an argument, and storage is asynchronous.
//!
//! Reading order: `wire` (bundle format), `cla` (CLAs and their sessions), `pieces` (receive buffers), `spec`,
//! `integrity_spec` (policy and keys), `bpa` (bundle protocol agent, its store, and the node with its connections).

mod bpa;
pub mod cla;
mod integrity_spec;
mod pieces;
mod spec;
pub mod wire;
#[cfg(test)]
mod wire_tests;

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
    DtnSpec, EpidemicSpec, NodeFailureSpec, PlanChangeSpec, StaticRouteSpec, StatusReportSpec,
};
