//! Bundle nodes on real sockets: agents and sessions are those of virtual time.
//!
//! Reading order: `sessions` (which is on which connection), `node` (an agent over them), `plan`, `told` (what it tells).

mod exercise;
mod node;
mod plan;
mod sessions;
mod told;

#[doc(hidden)]
pub use self::exercise::exercise_dtn;
pub use self::node::BundleHost;
pub use self::plan::{DoorPlan, DoorTls, NodePlan, node, run};
pub use self::sessions::{Gate, SessionId, Sessions, Traffic};
