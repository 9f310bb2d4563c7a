//! Extension blocks that are forwarded unchanged, unlike the blocks that every hop rewrites.

use bytes::Bytes;
use hardy_cbor::decode::{self, Head};

/// A block that is forwarded unchanged.
#[derive(Clone, Debug)]
pub(super) struct ExtensionBlock {
    pub number: u64,
    pub kind: u64,
    pub flags: u64,
    /// The encoded block.
    pub bytes: Bytes,
    /// The block-type-specific data.
    pub data: Bytes,
}

impl ExtensionBlock {
    /// Returns the flags as encoded.
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

    /// Returns whether every fragment contains the block.
    pub fn is_replicated(&self) -> bool {
        self.flags & super::blocks::REPLICATE != 0
    }
}
