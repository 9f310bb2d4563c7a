//! Where a client's connections come from: each has a port of its own, and when an address has none left the next address
//! goes on.

/// The first port that is no well-known one (RFC 6335 section 6), and how many there are from it on.
const FIRST: u32 = 1024;
const PORTS: u32 = (1 << 16) - FIRST;

/// The client's port of connection number `connection` of a flow.
pub fn client_port(connection: u32) -> u16 {
    (FIRST + connection % PORTS) as u16
}

/// Which of the client's addresses, from 0, that connection comes from.
pub fn client_address(connection: u32) -> u32 {
    connection / PORTS
}

/// The connection from this port of the client's address number `address`.
pub(crate) fn connection(address: u32, port: u16) -> u32 {
    address.wrapping_mul(PORTS).wrapping_add(u32::from(port).wrapping_sub(FIRST))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_two_connections_come_from_one_port() {
        for number in [0, 1, 64_511, 64_512, 65_535, 65_536, 200_000, u32::MAX] {
            let (address, port) = (client_address(number), client_port(number));
            assert!(port >= 1024, "{number}");
            assert_eq!(connection(address, port), number);
        }
        assert_eq!((client_address(64_511), client_port(64_511)), (0, 65_535));
        assert_eq!((client_address(64_512), client_port(64_512)), (1, 1024));
    }
}
