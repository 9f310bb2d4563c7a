//! The hash of a connection's 5-tuple. Queues and schedulers distinguish flows by it.

/// FNV-1a, 32 bits: offset basis and prime (draft-eastlake-fnv-35 section 5).
const BASIS: u32 = 0x811c_9dc5;
const PRIME: u32 = 0x0100_0193;

/// A hash of addresses, protocol and ports of a packet, in header order. The two directions of a connection differ.
/// Virtual and real time give the same hash.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct FlowHash(pub u32);

impl FlowHash {
    /// Hashes two addresses in network byte order and a protocol number. Protocols without ports need no more.
    pub fn of(source: &[u8], destination: &[u8], protocol: u8) -> FlowHash {
        FlowHash(BASIS).fold(source).fold(destination).fold(&[protocol])
    }

    /// Adds the ports to the hash.
    #[inline]
    #[must_use]
    pub fn ports(self, source: u16, destination: u16) -> FlowHash {
        self.fold(&source.to_be_bytes()).fold(&destination.to_be_bytes())
    }

    fn fold(self, bytes: &[u8]) -> FlowHash {
        let step = |hash: u32, byte: &u8| (hash ^ u32::from(*byte)).wrapping_mul(PRIME);
        FlowHash(bytes.iter().fold(self.0, step))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_fnv_1a() {
        // draft-eastlake-fnv-35 appendix C: "", "a", "foobar".
        assert_eq!(FlowHash(BASIS).fold(b""), FlowHash(0x811c_9dc5));
        assert_eq!(FlowHash(BASIS).fold(b"a"), FlowHash(0xe40c_292c));
        assert_eq!(FlowHash(BASIS).fold(b"foobar"), FlowHash(0xbf9c_f968));
        assert_eq!(FlowHash::of(b"fo", b"o", b'b').ports(0x6172, 0), {
            FlowHash(BASIS).fold(b"foobar\0\0")
        });
    }
}
