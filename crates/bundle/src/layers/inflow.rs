//! Bytes of a stream in order, from pieces in the order of their arrival.

use std::collections::BTreeMap;

use bytes::Bytes;

use crate::pieces::kept;

/// What has come of a stream. Pieces behind a gap are kept: no more than the transport's flow control lets in.
#[derive(Debug, Default)]
pub(super) struct Inflow {
    next: u64,
    /// Behind the gap, by their offset.
    ahead: BTreeMap<u64, Bytes>,
}

impl Inflow {
    /// Takes a piece, and gives `to` what is in order now.
    pub fn push(&mut self, offset: u64, data: &[u8], to: &mut dyn FnMut(&[u8])) {
        if offset > self.next {
            let known = self.ahead.get(&offset).map_or(0, Bytes::len);
            if known < data.len() {
                self.ahead.insert(offset, kept(data));
            }
            return;
        }
        self.give(offset, data, to);
        while let Some(piece) = self.ahead.first_entry() {
            if *piece.key() > self.next {
                break;
            }
            let (offset, data) = piece.remove_entry();
            self.give(offset, &data, to);
        }
    }

    fn give(&mut self, offset: u64, data: &[u8], to: &mut dyn FnMut(&[u8])) {
        let known = (self.next - offset) as usize;
        if let Some(fresh) = data.get(known..).filter(|fresh| !fresh.is_empty()) {
            self.next += fresh.len() as u64;
            to(fresh);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Inflow;

    #[test]
    fn pieces_in_any_order_come_out_in_order() {
        let all: Vec<u8> = (0..100).collect();
        let mut inflow = Inflow::default();
        let mut out = Vec::new();
        for (start, end) in
            [(10, 20), (0, 10), (40, 60), (30, 40), (30, 35), (15, 30), (60, 61), (50, 100)]
        {
            inflow.push(start, &all[start as usize..end], &mut |data| out.extend_from_slice(data));
        }
        assert_eq!(out, all);
        assert!(inflow.ahead.is_empty());
    }
}
