//! Bundle nodes on real sockets, with the bundle protocol agent and the sessions of the simulation.
//!
//! Reading order:
//! 1. `sessions` (sessions on connections), `disk_store` (a store that outlives the node), `recovery` (its content at
//!    the start);
//! 2. `node` (the agent on a host), `received_files` (files from clients);
//! 3. `plan`, `event_log` (output of a node), `event_loop`, `certificates` (certificates of a lab).

mod certificates;
mod disk_store;
mod event_log;
mod event_loop;
mod node;
mod plan;
mod received_files;
mod recovery;
mod sessions;

pub use self::certificates::{CertificatePlan, issue_certificate};
pub use self::disk_store::DiskStoreWorker;
pub use self::event_loop::run;
pub use self::node::{BundleHost, NodeEvents};
pub use self::plan::{BundleNodePlan, NeighbourPlan, NeighbourTls, build_node};
pub use self::recovery::{DamagedItem, RecoveredStore};
pub use self::sessions::{ClaEndpoint, InterfaceTraffic, Sessions};
