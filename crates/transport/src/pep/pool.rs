//! Connections that two neighbouring proxies keep open between them.

use bytes::Bytes;
use units::Span;

use super::SocketSpec;

/// What a proxy must know of its neighbour, to which a pool of connections leads.
#[derive(Clone, Debug)]
pub struct Pool {
    /// The neighbour's socket at the far end.
    pub peer: SocketSpec,
    /// Propagation there and back: what the handshake of an idle path has measured.
    pub round_trip: Span,
}

/// What a connection out of a pool carries before the client's data, so that the neighbour knows for
/// which client and server it is: the header of the PROXY protocol, version 2 (its section 2.2: 16
/// bytes, then both addresses and ports, 12 bytes over IPv4 and 36 over IPv6).
pub fn header(ip_and_tcp_bytes: u16) -> Bytes {
    static HEADER: [u8; 52] = {
        let mut header = [0; 52];
        let start = *b"\r\n\r\n\0\r\nQUIT\n\x21";
        let mut at = 0;
        while at < start.len() {
            header[at] = start[at];
            at += 1;
        }
        header
    };
    // 40 bytes of header are IPv4, 60 are IPv6.
    Bytes::from_static(if ip_and_tcp_bytes < 60 { &HEADER[..28] } else { &HEADER })
}
