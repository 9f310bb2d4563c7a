//! A UDP datagram in transit.

use std::borrow::Cow;

use bytes::BytesMut;
use units::Ecn;

use crate::quic::TAG;

/// A UDP datagram. Streams carry zeros, so a datagram of modelled QUIC stores only the number of zeros before its tag.
/// A full window of a satellite path would exceed the processor's cache.
#[derive(Clone, Debug)]
pub struct Datagram {
    /// The stored part of the UDP payload.
    stored: BytesMut,
    /// Zeros before the last [`TAIL_BYTES`] bytes of the stored part.
    zeros: u16,
    /// ECN field of the IP header.
    pub ecn: Ecn,
    /// Connection of the flow: the source upwards, the destination downwards.
    pub connection: u32,
    /// IP and UDP headers, bytes.
    pub header_bytes: u16,
}

impl Datagram {
    /// Creates a datagram that is stored whole.
    pub fn new(payload: BytesMut, ecn: Ecn, connection: u32, header_bytes: u16) -> Datagram {
        Datagram { stored: payload, zeros: 0, ecn, connection, header_bytes }
    }

    /// Returns the length of the payload.
    pub fn payload_bytes(&self) -> usize {
        self.stored.len() + usize::from(self.zeros)
    }

    /// Returns the first byte of the payload, or 0 if it is empty.
    pub fn first_byte(&self) -> u8 {
        self.stored.first().copied().unwrap_or(0)
    }

    /// Returns the length of the stored part.
    #[cfg(test)]
    pub(crate) fn stored_bytes(&self) -> usize {
        self.stored.len()
    }

    /// Returns the payload.
    pub fn payload(&self) -> Cow<'_, [u8]> {
        if self.zeros == 0 {
            return Cow::Borrowed(&self.stored);
        }
        let (head, tail) = self.stored.split_at(self.stored.len() - TAIL_BYTES);
        let mut whole = Vec::with_capacity(self.payload_bytes());
        whole.extend_from_slice(head);
        whole.resize(head.len() + usize::from(self.zeros), 0);
        whole.extend_from_slice(tail);
        Cow::Owned(whole)
    }
}

/// Bytes of a buffer that payloads share: a dozen full packets. A separate allocation per payload would dominate its
/// cost, since allocators cache only small blocks (glibc's tcache up to 1,032 bytes).
const SHARED_BUFFER_BYTES: usize = 16 << 10;

/// Bytes at the end of a payload that are always stored: the tag of modelled QUIC. After a key update neither half of
/// it is zero.
const TAIL_BYTES: usize = TAG;

/// Bytes at the start of a stream payload, before zeros follow in most cases. A short header (RFC 9000 section 17.3.1),
/// an ACK with one range and a STREAM frame header take about 40.
const HEAD_BYTES: usize = 64;

/// Bytes per comparison for payloads of another form.
const CHUNK_BYTES: usize = 128;

/// Buffers of an endpoint's payloads. Outgoing ones are separate: they are in transit for long, while the memory of
/// incoming ones is soon free.
#[derive(Debug, Default)]
pub(crate) struct PayloadBuffers {
    outgoing: BytesMut,
    incoming: BytesMut,
}

impl PayloadBuffers {
    /// Creates a datagram with this payload.
    pub fn pack(
        &mut self,
        payload: &[u8],
        ecn: Ecn,
        connection: u32,
        header_bytes: u16,
    ) -> Datagram {
        let (body, tail) = payload.split_at(payload.len().saturating_sub(TAIL_BYTES));
        let head = trimmed_length(body);
        reserve(&mut self.outgoing, head + tail.len());
        self.outgoing.extend_from_slice(&body[..head]);
        self.outgoing.extend_from_slice(tail);
        let zeros = (body.len() - head) as u16;
        Datagram { stored: self.outgoing.split(), zeros, ecn, connection, header_bytes }
    }

    /// Returns the payload of an incoming `datagram`.
    pub fn unpack(&mut self, datagram: Datagram) -> BytesMut {
        let whole = datagram.payload_bytes();
        let Datagram { stored, zeros, .. } = datagram;
        if zeros == 0 {
            return stored;
        }
        let (head, tail) = stored.split_at(stored.len() - TAIL_BYTES);
        reserve(&mut self.incoming, whole);
        self.incoming.extend_from_slice(head);
        self.incoming.resize(whole - TAIL_BYTES, 0);
        self.incoming.extend_from_slice(tail);
        self.incoming.split()
    }
}

/// Reserves `bytes` in `buffer`. The memory is reused if no part of it is referenced any more.
fn reserve(buffer: &mut BytesMut, bytes: usize) {
    if buffer.capacity() < bytes {
        buffer.reserve(bytes.max(SHARED_BUFFER_BYTES));
    }
}

/// Returns the length of `payload` without its trailing zeros: all after the header, or whole chunks.
fn trimmed_length(payload: &[u8]) -> usize {
    // Each byte equals the one before it, and the first is zero: one fast comparison of the C library.
    if let Some((_, rest @ [0, behind @ ..])) = payload.split_at_checked(HEAD_BYTES)
        && rest[..behind.len()] == *behind
    {
        return HEAD_BYTES;
    }
    let (_, pieces) = payload.as_rchunks::<CHUNK_BYTES>();
    let zeros = pieces.iter().rev().take_while(|piece| {
        let (words, _) = piece.as_chunks();
        words.iter().fold(0, |any, word| any | u64::from_ne_bytes(*word)) == 0
    });
    payload.len() - CHUNK_BYTES * zeros.count()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_payload_round_trips() {
        let mut payloads = PayloadBuffers::default();
        let mut held = Vec::new();
        let cases = [(0, 0), (9, 0), (0, 7), (9, 7)];
        for (length, (byte, last)) in
            (0..1500).step_by(7).flat_map(|length| cases.map(|case| (length, case)))
        {
            let mut payload = vec![0; length];
            if let Some(end) = payload.last_mut() {
                *end = last;
            }
            if let Some(octet) = payload.get_mut(length / 3) {
                *octet = byte;
            }
            let datagram = payloads.pack(&payload, Ecn::NotEct, 3, 28);
            assert!(
                datagram.stored_bytes() < length / 3 + 1 + CHUNK_BYTES + TAIL_BYTES,
                "{length}"
            );
            assert_eq!(datagram.payload_bytes(), length);
            assert_eq!(datagram.payload(), payload);
            assert_eq!(datagram.first_byte(), payload.first().copied().unwrap_or(0));
            held.push((payloads.unpack(datagram), payload));
        }
        // Payloads stay separate although they share a buffer.
        assert!(held.iter().all(|(unpacked, payload)| unpacked == payload));
    }
}
