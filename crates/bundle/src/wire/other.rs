//! Blocks that a bundle has beside those that nodes write anew at every hop: they go on as they came.

use bytes::Bytes;

/// A block that goes on as it came.
#[derive(Clone, Debug)]
pub(super) struct Other {
    pub number: u64,
    pub kind: u64,
    pub flags: u64,
    /// All of it.
    pub bytes: Bytes,
    /// What is specific to its type.
    pub data: Bytes,
}

impl Other {
    /// Whether every fragment has it.
    pub fn is_replicated(&self) -> bool {
        self.flags & super::REPLICATE != 0
    }
}
