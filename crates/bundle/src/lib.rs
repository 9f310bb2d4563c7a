//! Bundle nodes: store and forward by contact plans (RFC 9171), over convergence layers, sans-IO. Time is an argument;
//! what a node stores it asks for, and is told when it is durable.
//!
//! Reading order: `wire` (bundles as bytes), `layer` (the boundary between a node and the convergence layers), `layers` (one
//! folder or file each), `pieces` (what is kept of what comes), `carrier` (a session as an application of a connection);
//! `spec`, `integrity` (who signs bundles, and their keys), `store` (what keeps its bundles), `agent` (what a node does with bundles), `record` (what it tells of them), `node` (an agent with its connections).

mod agent;
mod carrier;
mod integrity;
mod layer;
pub mod layers;
mod node;
mod pieces;
mod record;
mod spec;
mod store;
pub mod wire;
#[cfg(test)]
mod wire_tests;

pub use agent::{Act, Agent, Door, FilePart, SessionId, Stored};
pub use carrier::{Carrier, Mailbox};
pub use integrity::{CheckSpec, IntegritySpec, Scope, Secret, Secrets, Sha, SignSpec, Unproven};
pub use layer::{Refusal, Role, Said, Service, Session, Told, Transfer, Way};
pub use node::{BundleNode, End, Met};
pub use record::{Happened, Name, Record, ReportRecord, RouteRecord};
pub use spec::{
    AmountSpec, ChangeSpec, DtnSpec, EpidemicSpec, HandSpec, LinkSpec, NodeSpec, PaceSpec,
    PerfSpec, ReportsSpec, ReturnSpec, StopSpec,
};
pub use store::{Answer, Asked, InMemory, Store};
