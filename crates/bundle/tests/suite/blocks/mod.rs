//! What a node makes of blocks that others have written.

mod integrity;
mod node;
mod unknown;
