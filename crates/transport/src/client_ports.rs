//! Addresses and ports of a client's connections. Each connection has a separate port; after the last port of an
//! address the next address follows.

/// The first port above the well-known ones (RFC 6335 section 6), and the number of ports from there on.
const FIRST_PORT: u32 = 1024;
const PORT_COUNT: u32 = (1 << 16) - FIRST_PORT;

/// Returns the client's port of connection number `connection` of a flow.
pub fn client_port(connection: u32) -> u16 {
    (FIRST_PORT + connection % PORT_COUNT) as u16
}

/// Returns the index of the client's address for a connection, from 0.
pub fn client_address_index(connection: u32) -> u32 {
    connection / PORT_COUNT
}

/// Returns the connection of a port of the client's address number `address`.
pub(crate) fn connection_number(address: u32, port: u16) -> u32 {
    address.wrapping_mul(PORT_COUNT).wrapping_add(u32::from(port).wrapping_sub(FIRST_PORT))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_connection_has_a_distinct_port() {
        for number in [0, 1, 64_511, 64_512, 65_535, 65_536, 200_000, u32::MAX] {
            let (address, port) = (client_address_index(number), client_port(number));
            assert!(port >= 1024, "{number}");
            assert_eq!(connection_number(address, port), number);
        }
        assert_eq!((client_address_index(64_511), client_port(64_511)), (0, 65_535));
        assert_eq!((client_address_index(64_512), client_port(64_512)), (1, 1024));
    }
}
