//! The address of a peer.

use std::net::{SocketAddr, ToSocketAddrs};

use crate::ProgramError;

/// Resolves the address of a host.
pub(crate) fn resolve_host(host: &str, port: u16) -> Result<SocketAddr, ProgramError> {
    let plain = host.trim_start_matches('[').trim_end_matches(']');
    let found = (plain, port).to_socket_addrs();
    found.ok().and_then(|mut addresses| addresses.next()).ok_or_else(|| {
        ProgramError::Input(format!(
            "HOST: found \"{host}\", expected an address, or a host name with an address"
        ))
    })
}
