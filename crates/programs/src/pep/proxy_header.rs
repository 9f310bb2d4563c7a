//! The first bytes of a pooled connection: the header of the PROXY protocol, version 2, with the addresses of client
//! and server.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

/// Signature (section 2.2).
const SIGNATURE: [u8; 12] = *b"\r\n\r\n\0\r\nQUIT\n";
/// Signature, version and command, family and protocol, length.
const FIXED_BYTES: usize = 16;
/// Version 2, command PROXY.
const PROXY: u8 = 0x21;
/// TCP over IPv4: 12 bytes of addresses and ports.
const TCP4: u8 = 0x11;
/// TCP over IPv6: 36 bytes.
const TCP6: u8 = 0x21;

/// The longest accepted header: the length that every receiver has to support (section 2).
pub const MAX_HEADER_BYTES: usize = 536;

/// Client and server of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AddressPair {
    /// The address that opened the connection.
    pub client: SocketAddr,
    /// The destination of the connection.
    pub server: SocketAddr,
}

/// Encodes the header for `ends`: 28 bytes for IPv4, 52 for IPv6, `None` for two families.
pub fn encode(ends: AddressPair) -> Option<Vec<u8>> {
    let mut header = SIGNATURE.to_vec();
    match (ends.client.ip(), ends.server.ip()) {
        (IpAddr::V4(client), IpAddr::V4(server)) => {
            header.extend([PROXY, TCP4, 0, 12]);
            header.extend(client.octets());
            header.extend(server.octets());
        }
        (IpAddr::V6(client), IpAddr::V6(server)) => {
            header.extend([PROXY, TCP6, 0, 36]);
            header.extend(client.octets());
            header.extend(server.octets());
        }
        _ => return None,
    }
    header.extend(ends.client.port().to_be_bytes());
    header.extend(ends.server.port().to_be_bytes());
    Some(header)
}

/// Parses the header at the start of `bytes`. Returns it with its length, `None` if it is incomplete. Data after the
/// addresses (TLVs) is skipped.
///
/// # Errors
/// The bytes are not a header that a previous proxy writes.
pub fn parse(bytes: &[u8]) -> Result<Option<(AddressPair, usize)>, &'static str> {
    let known = bytes.len().min(SIGNATURE.len());
    if bytes[..known] != SIGNATURE[..known] {
        return Err("found no header of the PROXY protocol, version 2");
    }
    if bytes.get(12).is_some_and(|word| *word != PROXY) {
        return Err("found another version or command, expected version 2 and PROXY");
    }
    let address_bytes = match bytes.get(13) {
        None => return Ok(None),
        Some(&TCP4) => 12,
        Some(&TCP6) => 36,
        Some(_) => return Err("found another protocol, expected TCP over IPv4 or IPv6"),
    };
    let Some(length) = bytes.get(14..FIXED_BYTES) else { return Ok(None) };
    let length = usize::from(u16::from_be_bytes([length[0], length[1]]));
    if length < address_bytes {
        return Err("found a header shorter than its addresses");
    }
    if FIXED_BYTES + length > MAX_HEADER_BYTES {
        return Err("found a header longer than 536 bytes");
    }
    let Some(body) = bytes.get(FIXED_BYTES..FIXED_BYTES + length) else { return Ok(None) };
    let port = |at: usize| u16::from_be_bytes([body[at], body[at + 1]]);
    let (client, server, ports): (IpAddr, IpAddr, usize) = if address_bytes == 12 {
        let address = |at: usize| Ipv4Addr::new(body[at], body[at + 1], body[at + 2], body[at + 3]);
        (address(0).into(), address(4).into(), 8)
    } else {
        let address = |at: usize| {
            let mut octets = [0; 16];
            octets.copy_from_slice(&body[at..at + 16]);
            Ipv6Addr::from(octets)
        };
        (address(0).into(), address(16).into(), 32)
    };
    let ends = AddressPair {
        client: SocketAddr::new(client, port(ports)),
        server: SocketAddr::new(server, port(ports + 2)),
    };
    if !is_proxiable(ends.client) || !is_proxiable(ends.server) {
        return Err("found an address that no client or server can have");
    }
    Ok(Some((ends, FIXED_BYTES + length)))
}

/// Returns whether an address can be an end of a proxied connection: neither this machine nor a group.
pub fn is_proxiable(address: SocketAddr) -> bool {
    let ip = address.ip().to_canonical();
    let broadcast = matches!(ip, IpAddr::V4(v4) if v4.is_broadcast() || v4.octets()[0] == 0);
    address.port() != 0
        && !(ip.is_loopback() || ip.is_unspecified() || ip.is_multicast() || broadcast)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn ends(client: &str, server: &str) -> AddressPair {
        AddressPair { client: client.parse().unwrap(), server: server.parse().unwrap() }
    }

    #[test]
    fn a_header_contains_client_and_server() {
        for (one, length) in [
            (ends("10.78.0.2:40000", "10.78.9.1:443"), 28),
            (ends("[fd00::2]:1", "[fd00::9]:65535"), 52),
        ] {
            let mut bytes = encode(one).unwrap();
            assert_eq!(bytes.len(), length);
            for cut in 0..length {
                assert_eq!(parse(&bytes[..cut]), Ok(None), "cut at {cut}");
            }
            bytes.extend(b"GET /");
            assert_eq!(parse(&bytes), Ok(Some((one, length))));
        }
        assert_eq!(encode(ends("10.0.0.1:1", "[fd00::9]:2")), None);
    }

    #[test]
    fn an_invalid_header_is_refused() {
        let good = encode(ends("10.78.0.2:40000", "10.78.9.1:443")).unwrap();
        let with = |at: usize, byte: u8| {
            let mut bytes = good.clone();
            bytes[at] = byte;
            parse(&bytes).unwrap_err()
        };
        assert!(with(0, b'G').contains("no header of the PROXY protocol"));
        assert!(with(12, 0x20).contains("command"));
        assert!(with(13, 0x12).contains("protocol"));
        assert!(with(15, 11).contains("shorter"));
        assert!(with(14, 0xff).contains("longer"));
        assert!(with(20, 127).contains("no client or server"));
    }

    proptest! {
        #[test]
        fn any_bytes_are_refused_incomplete_or_a_header(
            start in 0usize..17, rest in proptest::collection::vec(any::<u8>(), 0..700)
        ) {
            let good = encode(ends("10.78.0.2:40000", "10.78.9.1:443")).unwrap();
            let mut bytes = good[..start.min(good.len())].to_vec();
            bytes.extend(rest);
            match parse(&bytes) {
                Ok(Some((found, length))) => {
                    prop_assert!(length <= bytes.len() && length <= MAX_HEADER_BYTES);
                    prop_assert!(is_proxiable(found.client) && is_proxiable(found.server));
                    prop_assert_eq!(found.client.is_ipv4(), found.server.is_ipv4());
                }
                // The longest header ends every wait for more bytes.
                Ok(None) => prop_assert!(bytes.len() < MAX_HEADER_BYTES),
                Err(_) => {}
            }
        }
    }
}
