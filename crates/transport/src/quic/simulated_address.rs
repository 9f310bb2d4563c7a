//! Addresses of simulated peers: the stack knows peers by address, the simulation by connection number.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};

use crate::client_ports::{self, client_address_index, client_port};

/// Returns the peer address of connection number `connection` of a flow for the stack. It is the client's address, from
/// which the server derives the number.
pub(super) fn simulated_address(connection: u32) -> SocketAddr {
    let ip = Ipv4Addr::LOCALHOST.to_bits() + client_address_index(connection);
    SocketAddr::new(IpAddr::V4(Ipv4Addr::from_bits(ip)), client_port(connection))
}

/// Returns the connection with this address.
pub(super) fn connection_number(address: SocketAddr) -> u32 {
    let first = Ipv4Addr::LOCALHOST.to_bits();
    match address.ip() {
        IpAddr::V4(ip) => {
            client_ports::connection_number(ip.to_bits().wrapping_sub(first), address.port())
        }
        IpAddr::V6(_) => unreachable!("{address} is none of `simulated_address`"),
    }
}
