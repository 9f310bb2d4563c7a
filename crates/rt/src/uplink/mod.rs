//! The connection of a lab to the networks of the machine: address translation, or a user-mode network. The client also
//! has a connection to the loopback addresses of the server side.

pub mod listeners;
pub mod localhost;
pub mod nat;
pub mod rule_table;
pub mod user_network;
