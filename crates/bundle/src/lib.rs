//! Bundle nodes: store and forward by contact plans (RFC 9171), over convergence layers, sans-IO. Time is an argument;
//! what a node stores it asks for, and is told when it is durable.
//!
//! Reading order: `wire` (bundles as bytes), `layer` (the boundary between a node and the convergence layers), `layers` (one
//! folder or file each), `carrier` (a session as an application of a connection).

// Whose file is whose while they are written at the same time: `layers/` is the convergence layers' (a session and its options a
// file or folder, `LayerSpec` and what each needs of a connection in `layers/mod.rs`); all else is the node's.

mod carrier;
mod layer;
pub mod layers;
pub mod wire;
#[cfg(test)]
mod wire_tests;

pub use carrier::{Carrier, Mailbox};
pub use layer::{Refusal, Role, Said, Service, Session, Told, Transfer};
