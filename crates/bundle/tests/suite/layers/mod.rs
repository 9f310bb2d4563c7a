//! Convergence layers, from the outside.

mod bytes;
mod carry;
mod early;
mod kills;
mod pair;
mod pieces;
mod states;
mod ways;
