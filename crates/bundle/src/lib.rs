//! Bundle nodes (RFC 9171): store-and-forward routing by contact plans over convergence-layer adapters (CLAs), sans-IO.
//! Time is an argument, and storage is asynchronous.
//!
//! Reading order: `wire` (bundle format), `session` (boundary to CLAs), `cla` (the CLAs), `pieces` (receive buffers),
//! `session_app` (session as an application), `spec`, `integrity_spec` (policy and keys), `store_api` (bundle store),
//! `bpa` (bundle protocol agent), `events` (rows of bundle tables), `node` (agent with connections).

mod bpa;
pub mod cla;
mod events;
mod integrity_spec;
mod node;
mod pieces;
mod session;
mod session_app;
mod spec;
mod store_api;
pub mod wire;
#[cfg(test)]
mod wire_tests;

pub use bpa::{
    BpaAction, BundleMetadata, BundleProtocolAgent, FilePart, NeighbourConfig, SessionId,
};
pub use events::{BundleEvent, BundleEventKind, BundleLabel, ReportRecord, RouteRecord};
pub use integrity_spec::{
    BibCheckSpec, BibSignSpec, IntegrityScope, IntegritySpec, Secret, Secrets, ShaVariant,
    UnverifiedAction,
};
pub use node::{BundleNode, ClaInterface, IncomingSessions};
pub use session::{
    DeliveryMode, LinkState, RefusalReason, Role, Session, SessionCommand, SessionEvent, Transfer,
};
pub use session_app::{Mailbox, SessionApp};
pub use spec::{
    BundleNodeSpec, ClaLinkSpec, ContactStartSpec, DtnPerfAmount, DtnPerfPace, DtnPerfSpec,
    DtnSpec, EpidemicSpec, NodeFailureSpec, PlanChangeSpec, StaticRouteSpec, StatusReportSpec,
};
pub use store_api::{MemoryStore, Store, StoreCompletion, StoreRequest};
