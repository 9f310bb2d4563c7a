//! Blocks that a bundle has beside those that nodes write anew at every hop: they go on as they came.

use bytes::Bytes;
use hardy_cbor::decode::{self, Head};

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
    /// Its flags as they are written.
    pub fn written_flags(&self) -> Option<u64> {
        let mut at = decode::parse::<(Head, bool, usize)>(&self.bytes).ok()?.2;
        let mut field = || {
            let (value, _, length) =
                decode::parse::<(u64, bool, usize)>(self.bytes.get(at..)?).ok()?;
            at += length;
            Some(value)
        };
        let (_kind, _number) = (field()?, field()?);
        field()
    }

    /// Whether every fragment has it.
    pub fn is_replicated(&self) -> bool {
        self.flags & super::REPLICATE != 0
    }
}
