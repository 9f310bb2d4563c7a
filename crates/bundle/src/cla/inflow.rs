//! Converts received chunks of a stream into bytes in stream sequence.

use std::collections::BTreeMap;

use bytes::Bytes;

use crate::pieces::copy_chunk;

/// The receive buffer of a stream. Flow control of the transport limits the buffered bytes after a gap.
#[derive(Debug, Default)]
pub(super) struct InOrderBuffer {
    next_offset: u64,
    /// Chunks after the gap, by offset.
    out_of_order: BTreeMap<u64, Bytes>,
}

impl InOrderBuffer {
    /// Adds a chunk and passes contiguous bytes to `sink`.
    pub fn push(&mut self, offset: u64, data: &[u8], sink: &mut dyn FnMut(&[u8])) {
        if offset > self.next_offset {
            let known = self.out_of_order.get(&offset).map_or(0, Bytes::len);
            if known < data.len() {
                self.out_of_order.insert(offset, copy_chunk(data));
            }
            return;
        }
        self.deliver(offset, data, sink);
        while let Some(piece) = self.out_of_order.first_entry() {
            if *piece.key() > self.next_offset {
                break;
            }
            let (offset, data) = piece.remove_entry();
            self.deliver(offset, &data, sink);
        }
    }

    fn deliver(&mut self, offset: u64, data: &[u8], sink: &mut dyn FnMut(&[u8])) {
        let known = (self.next_offset - offset) as usize;
        if let Some(fresh) = data.get(known..).filter(|fresh| !fresh.is_empty()) {
            self.next_offset += fresh.len() as u64;
            sink(fresh);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::InOrderBuffer;

    #[test]
    fn chunks_in_any_order_are_delivered_in_order() {
        let all: Vec<u8> = (0..100).collect();
        let mut inflow = InOrderBuffer::default();
        let mut out = Vec::new();
        for (start, end) in
            [(10, 20), (0, 10), (40, 60), (30, 40), (30, 35), (15, 30), (60, 61), (50, 100)]
        {
            inflow.push(start, &all[start as usize..end], &mut |data| out.extend_from_slice(data));
        }
        assert_eq!(out, all);
        assert!(inflow.out_of_order.is_empty());
    }
}
