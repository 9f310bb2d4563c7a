//! The connection of a lab to the networks of the machine: address translation, or a user-mode network.

pub mod nat;
pub mod user_network;
