//! Addresses and ports of a flow's packets: what captures show and what queues hash. An end has those of its flow on every
//! leg, as behind proxies that show neither side their own.

use std::net::IpAddr;

use transport::{Payload, Side, client_address, client_port};
use units::{Direction, FlowHash};

/// Port of every server: the one at which analysers expect QUIC, and TLS over TCP.
pub const SERVER_PORT: u16 = 443;

/// IANA protocol numbers.
pub const PROTOCOL_TCP: u8 = 6;
pub const PROTOCOL_UDP: u8 = 17;

/// Addresses of a flow's two hosts: of the ranges for benchmarks, 198.18.0.0/15 (RFC 2544 appendix
/// C.2.2) and 2001:2::/48 (RFC 5180 section 8).
#[derive(Clone, Copy, Debug)]
pub struct Addresses {
    flow: u32,
    flows: u32,
    six: bool,
}

impl Addresses {
    /// Of flow number `flow` of `flows`. 28 bytes of IP and UDP header are IPv4, 48 are IPv6.
    pub fn new(flow: usize, flows: usize, udp_header_bytes: u32) -> Addresses {
        Addresses { flow: flow as u32, flows: flows as u32, six: udp_header_bytes >= 48 }
    }

    fn address(&self, side: Side, further: u32) -> IpAddr {
        // A client's further addresses follow the last flow's first.
        let number = further.wrapping_mul(self.flows).wrapping_add(self.flow + 1);
        let net = 18 + u8::from(side == Side::Server);
        let [a, b, high, low] = number.to_be_bytes();
        if self.six {
            let [upper, lower] = [[a, b], [high, low]].map(u16::from_be_bytes);
            IpAddr::from([0x2001, 2, 0, net.into(), 0, 0, upper, lower])
        } else {
            IpAddr::from([198, net, high, low])
        }
    }

    /// Addresses and ports of sender and receiver of a packet of connection number `connection`.
    pub fn ends(&self, direction: Direction, connection: u32) -> [(IpAddr, u16); 2] {
        let client = self.address(Side::Client, client_address(connection));
        let client = (client, client_port(connection));
        let server = (self.address(Side::Server, 0), SERVER_PORT);
        match direction {
            Direction::Up => [client, server],
            Direction::Down => [server, client],
        }
    }

    fn without_ports(&self, direction: Direction, connection: u32, protocol: u8) -> FlowHash {
        match self.ends(direction, connection) {
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

/// Hashes the 5-tuples of a flow's packets.
#[derive(Clone, Copy, Debug)]
pub struct Tuples {
    addresses: Addresses,
    /// From the client's first address, without ports; by protocol and direction.
    first: [[FlowHash; 2]; 2],
}

impl Tuples {
    /// For a flow with these addresses.
    pub fn new(addresses: Addresses) -> Tuples {
        let first = [PROTOCOL_TCP, PROTOCOL_UDP].map(|protocol| {
            [Direction::Up, Direction::Down]
                .map(|direction| addresses.without_ports(direction, 0, protocol))
        });
        Tuples { addresses, first }
    }

    /// Of what carries `payload` in `direction`.
    #[inline]
    pub fn hash(&self, direction: Direction, payload: &Payload) -> FlowHash {
        let (connection, udp) = match payload {
            Payload::Segment(segment) => (segment.connection, false),
            Payload::Datagram(datagram) | Payload::Udp(datagram) => (datagram.connection, true),
        };
        let hash = if client_address(connection) == 0 {
            self.first[usize::from(udp)][direction as usize]
        } else {
            let protocol = if udp { PROTOCOL_UDP } else { PROTOCOL_TCP };
            self.addresses.without_ports(direction, connection, protocol)
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
        Payload::Segment(Segment { connection, ..Segment::of_data(0, Bytes::new()) })
    }

    #[test]
    fn no_two_connections_of_a_run_share_addresses_and_ports() {
        // Two flows that each open more connections than an address has ports.
        for header in [28, 48] {
            let of = |flow| Addresses::new(flow, 2, header);
            let ends: BTreeSet<_> = [0, 1, 64_511, 64_512, 65_536, 129_024]
                .into_iter()
                .flat_map(|n| [of(0), of(1)].map(|addresses| addresses.ends(Direction::Up, n)))
                .collect();
            assert_eq!(ends.len(), 12);
        }
    }

    #[test]
    fn a_hash_is_that_of_the_packet_in_a_capture() {
        let tuples = Tuples::new(Addresses::new(1, 2, 28));
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
