//! Connections that two neighbouring proxies keep open to each other.

use bytes::Bytes;
use units::Span;

use super::SocketSpec;

/// Description of the neighbour at the other end of a connection pool.
#[derive(Clone, Debug)]
pub struct ConnectionPool {
    /// The neighbour's socket at the far end.
    pub peer: SocketSpec,
    /// Propagation delay of both directions, as the handshake of an idle path measures it.
    pub rtt: Span,
}

/// Returns the bytes that a pooled connection carries before the client's data: the neighbour learns client and server.
/// This is the header of the PROXY protocol, version 2. Its section 2.2 has 16 bytes, then both addresses and ports: 12
/// bytes over IPv4, 36 over IPv6.
pub fn proxy_header(ip_and_tcp_bytes: u16) -> Bytes {
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
    // A header of 40 bytes is IPv4, one of 60 is IPv6.
    Bytes::from_static(if ip_and_tcp_bytes < 60 { &HEADER[..28] } else { &HEADER })
}
