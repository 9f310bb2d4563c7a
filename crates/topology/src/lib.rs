//! The topology of a run: nodes, the links between them, next hops over time, and store-and-forward buffers.
//!
//! A [`Topology`] consists of nodes and [`link::SimplexLink`]s, two for each link.

mod route_changes;
mod routes;
mod spec;
mod store_forward;
mod topology;

pub use spec::*;
pub use store_forward::{StoreForwardBuffer, StoreForwardCounters};
pub use topology::Topology;
