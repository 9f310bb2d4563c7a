//! Black-box tests of the convergence-layer adapters.

mod bytes;
mod carry;
mod early;
mod kills;
mod link_properties;
mod pair;
mod pieces;
mod states;
