//! Processing of blocks from other implementations.

mod integrity;
mod node;
mod unknown;
