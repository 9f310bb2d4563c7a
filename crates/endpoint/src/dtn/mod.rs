//! Bundle nodes on real sockets: agents and sessions are those of virtual time.
//!
//! Reading order: `sessions` (which is on which connection), `disk` (a store that outlives the node), `found` (what it had at
//! start), `node` (an agent over them), `files` (what clients send of files), `plan`, `told` (what it tells), `issue`
//! (certificates of a lab).

mod disk;
mod exercise;
mod files;
mod found;
mod issue;
mod node;
mod plan;
mod sessions;
mod told;

pub use self::disk::Disk;
#[doc(hidden)]
pub use self::exercise::exercise_dtn;
pub use self::found::{Damage, FoundStore};
pub use self::issue::{IssuePlan, issue};
pub use self::node::{BundleHost, Events};
pub use self::plan::{DoorPlan, DoorTls, NodePlan, node, run};
pub use self::sessions::{Gate, SessionId, Sessions, Traffic};
