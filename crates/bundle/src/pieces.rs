//! What is kept of bytes that come in pieces: each is copied once, to where it stays, and zeros are counted, not kept.

use bytes::{Bytes, BytesMut};

/// What zeros are parts of: they take no memory of their own. No longer than what a processor keeps at hand while a transport
/// copies them into packets.
static ZEROS: [u8; 32 << 10] = [0; 32 << 10];

/// Zeros of a piece that are fewer are kept: a part has some 40 bytes of its own.
const FEWEST: usize = 256;

/// Memory that is asked for at first, and the most at once: a large block is new from the system each time, and cleared by
/// it.
const FIRST: usize = 2 << 10;
const MOST: usize = 64 << 10;

/// So many zeros, in parts.
pub(crate) fn zeros(bytes: u64) -> impl Iterator<Item = Bytes> {
    let whole = ZEROS.len() as u64;
    let rest = (bytes % whole) as usize;
    let wholes = (0..bytes / whole).map(|_| Bytes::from_static(&ZEROS));
    wholes.chain((rest > 0).then(|| Bytes::from_static(&ZEROS[..rest])))
}

fn are_counted(data: &[u8]) -> bool {
    // Compared with zeros at hand, which the platform's library does by the widest registers there are.
    data.len() >= FEWEST && data.chunks(ZEROS.len()).all(|piece| *piece == ZEROS[..piece.len()])
}

/// A piece by itself.
pub(crate) fn kept(data: &[u8]) -> Bytes {
    if data.len() <= ZEROS.len() && are_counted(data) {
        return Bytes::from_static(&ZEROS[..data.len()]);
    }
    Bytes::copy_from_slice(data)
}

/// Pieces, one after the other. Memory follows what has come.
#[derive(Debug, Default)]
pub(crate) struct Pieces {
    parts: Vec<Bytes>,
    /// Zeros after these parts.
    zeros: u64,
    /// What comes after those.
    open: BytesMut,
    bytes: u64,
    /// Bytes that take memory.
    kept: usize,
}

impl Pieces {
    /// Bytes so far.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Appends a piece, of which at most `more` bytes follow, if that is known.
    pub fn push(&mut self, mut data: &[u8], more: Option<u64>) {
        self.bytes += data.len() as u64;
        if are_counted(data) {
            self.close();
            self.zeros += data.len() as u64;
            return;
        }
        self.parts.extend(zeros(std::mem::take(&mut self.zeros)));
        self.kept += data.len();
        while !data.is_empty() {
            if self.open.len() == self.open.capacity() {
                self.close();
                let needed =
                    more.map_or(usize::MAX, |more| data.len().saturating_add(more as usize));
                self.open = BytesMut::with_capacity(self.kept.clamp(FIRST, MOST).min(needed));
            }
            let room = self.open.capacity() - self.open.len();
            let (now, later) = data.split_at(data.len().min(room));
            self.open.extend_from_slice(now);
            data = later;
        }
    }

    fn close(&mut self) {
        if !self.open.is_empty() {
            self.parts.push(self.open.split().freeze());
        }
    }

    /// All of it, in parts.
    pub fn into_parts(mut self) -> Vec<Bytes> {
        self.close();
        self.parts.extend(zeros(self.zeros));
        self.parts
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_comes_out_is_what_came_and_zeros_take_no_memory() {
        for length in [1, 100, 255, 256, 1_200, 70_000] {
            for gap in [1, 3, 4_000] {
                let mut pieces = Pieces::default();
                let mut whole: Vec<u8> = Vec::new();
                for number in 0..300u64 {
                    let mut piece = vec![0; length];
                    if number % gap == 0 {
                        piece[length / 2] = number as u8 | 1;
                    }
                    pieces.push(&piece, None);
                    whole.extend_from_slice(&piece);
                }
                assert_eq!(pieces.bytes(), whole.len() as u64);
                let parts = pieces.into_parts();
                assert!(parts.iter().all(|part| !part.is_empty()));
                assert_eq!(parts.concat(), whole, "{length} {gap}");
                let zeros = ZEROS.as_ptr_range();
                let own = parts.iter().filter(|part| !zeros.contains(&part.as_ptr()));
                let own: usize = own.map(Bytes::len).sum();
                if length >= FEWEST {
                    assert_eq!(own, length * 300usize.div_ceil(gap as usize), "{length} {gap}");
                }
            }
        }
    }

    #[test]
    fn no_more_memory_is_asked_for_than_follows() {
        let mut pieces = Pieces::default();
        for _ in 0..100 {
            pieces.push(&[7; 1_000], Some(0));
            assert_eq!(pieces.open.capacity() - pieces.open.len(), 0);
        }
        assert_eq!(pieces.into_parts().concat(), [7; 100_000]);
    }
}
