//! Convergence layers, from the outside.

mod bytes;
mod pieces;
