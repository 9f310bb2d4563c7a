//! Addresses and ports of a flow's packets, as captures show them and queues hash them. A host has the same addresses
//! on every link, because proxies are transparent to both sides.

use std::net::IpAddr;

use transport::{Payload, Side, client_address_index, client_port};
use units::{Direction, FlowHash};

/// The port of every server, where analysers expect QUIC and TLS over TCP.
pub const SERVER_PORT: u16 = 443;

/// The IANA protocol number of TCP.
pub const PROTOCOL_TCP: u8 = 6;
pub const PROTOCOL_UDP: u8 = 17;

/// The addresses of a flow's two hosts, from the ranges for benchmarks: 198.18.0.0/15 (RFC 2544 appendix C.2.2) and
/// 2001:2::/48 (RFC 5180 section 8).
#[derive(Clone, Copy, Debug)]
pub struct FlowAddresses {
    flow: u32,
    flows: u32,
    is_ipv6: bool,
}

impl FlowAddresses {
    /// Creates the addresses of one of `flows` flows. IP and UDP headers of 28 bytes mean IPv4, 48 bytes IPv6.
    pub fn new(flow: usize, flows: usize, udp_header_bytes: u32) -> FlowAddresses {
        FlowAddresses { flow: flow as u32, flows: flows as u32, is_ipv6: udp_header_bytes >= 48 }
    }

    fn build_address(&self, side: Side, address_index: u32) -> IpAddr {
        // The additional addresses of clients follow the first address of the last flow.
        let number = address_index.wrapping_mul(self.flows).wrapping_add(self.flow + 1);
        let net = 18 + u8::from(side == Side::Server);
        let [a, b, high, low] = number.to_be_bytes();
        if self.is_ipv6 {
            let [upper, lower] = [[a, b], [high, low]].map(u16::from_be_bytes);
            IpAddr::from([0x2001, 2, 0, net.into(), 0, 0, upper, lower])
        } else {
            IpAddr::from([198, net, high, low])
        }
    }

    /// Returns addresses and ports of sender and receiver for packets of `connection`.
    pub fn socket_addresses(&self, direction: Direction, connection: u32) -> [(IpAddr, u16); 2] {
        let client = self.build_address(Side::Client, client_address_index(connection));
        let client = (client, client_port(connection));
        let server = (self.build_address(Side::Server, 0), SERVER_PORT);
        match direction {
            Direction::Up => [client, server],
            Direction::Down => [server, client],
        }
    }

    fn hash_addresses(&self, direction: Direction, connection: u32, protocol: u8) -> FlowHash {
        match self.socket_addresses(direction, connection) {
            [(IpAddr::V4(from), _), (IpAddr::V4(to), _)] => {
                FlowHash::of(&from.octets(), &to.octets(), protocol)
            }
            [(IpAddr::V6(from), _), (IpAddr::V6(to), _)] => {
                FlowHash::of(&from.octets(), &to.octets(), protocol)
            }
            _ => unreachable!("both ends of a flow have addresses of one family"),
        }
    }
}

/// A hasher of the 5-tuples of a flow's packets.
#[derive(Clone, Copy, Debug)]
pub struct FlowHasher {
    addresses: FlowAddresses,
    /// The hashes without ports for the client's first address, by protocol and direction.
    base_hashes: [[FlowHash; 2]; 2],
}

impl FlowHasher {
    /// Creates the hasher of a flow with these addresses.
    pub fn new(addresses: FlowAddresses) -> FlowHasher {
        let base_hashes = [PROTOCOL_TCP, PROTOCOL_UDP].map(|protocol| {
            [Direction::Up, Direction::Down]
                .map(|direction| addresses.hash_addresses(direction, 0, protocol))
        });
        FlowHasher { addresses, base_hashes }
    }

    /// Returns the hash of the packet that carries `payload` in `direction`.
    #[inline]
    pub fn hash(&self, direction: Direction, payload: &Payload) -> FlowHash {
        let (connection, is_udp) = match payload {
            Payload::Segment(segment) => (segment.connection, false),
            Payload::Datagram(datagram) | Payload::Udp(datagram) => (datagram.connection, true),
        };
        let hash = if client_address_index(connection) == 0 {
            self.base_hashes[usize::from(is_udp)][direction as usize]
        } else {
            let protocol = if is_udp { PROTOCOL_UDP } else { PROTOCOL_TCP };
            self.addresses.hash_addresses(direction, connection, protocol)
        };
        match direction {
            Direction::Up => hash.ports(client_port(connection), SERVER_PORT),
            Direction::Down => hash.ports(SERVER_PORT, client_port(connection)),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use bytes::Bytes;
    use transport::tcp::Segment;

    use super::*;

    fn segment(connection: u32) -> Payload {
        Payload::Segment(Segment { connection, ..Segment::from_data(0, Bytes::new()) })
    }

    #[test]
    fn no_two_connections_of_a_run_share_addresses_and_ports() {
        // Each of two flows opens more connections than one address has ports.
        for header in [28, 48] {
            let of = |flow| FlowAddresses::new(flow, 2, header);
            let ends: BTreeSet<_> = [0, 1, 64_511, 64_512, 65_536, 129_024]
                .into_iter()
                .flat_map(|n| {
                    [of(0), of(1)].map(|addresses| addresses.socket_addresses(Direction::Up, n))
                })
                .collect();
            assert_eq!(ends.len(), 12);
        }
    }

    #[test]
    fn the_hash_equals_that_of_the_captured_packet() {
        let tuples = FlowHasher::new(FlowAddresses::new(1, 2, 28));
        let one = [198, 18, 0, 2];
        let (second, server) = ([198, 18, 0, 4], [198, 19, 0, 2]);
        let up = FlowHash::of(&one, &server, 6).ports(1029, 443);
        assert_eq!(tuples.hash(Direction::Up, &segment(5)), up);
        let down = FlowHash::of(&server, &one, 6).ports(443, 1029);
        assert_eq!(tuples.hash(Direction::Down, &segment(5)), down);
        let further = FlowHash::of(&second, &server, 6).ports(1024, 443);
        assert_eq!(tuples.hash(Direction::Up, &segment(64_512)), further);
    }
}
