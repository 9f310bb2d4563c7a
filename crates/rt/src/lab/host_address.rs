//! The address of a host.

use std::net::{Ipv4Addr, Ipv6Addr};

/// The address of a host in both families.
#[derive(Clone, Copy, Debug)]
pub struct HostAddress {
    pub v4: Ipv4Addr,
    pub v6: Ipv6Addr,
}
