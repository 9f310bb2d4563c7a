//! The ports on which processes of a network namespace listen, from its socket tables (proc_net(5)).

use std::collections::BTreeSet;
use std::fs::File;
use std::io::{self, BufRead, BufReader, Seek};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use crate::lab::HostAddress;

/// The state of a TCP socket that listens, and of a UDP socket without peer (net/tcp_states.h).
const TCP_LISTEN: u8 = 0x0A;
const UDP_UNCONNECTED: u8 = 0x07;

/// A transport protocol with ports.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum TransportProtocol {
    Tcp,
    Udp,
}

/// The version of the Internet TransportProtocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum IpVersion {
    V4,
    V6,
}

/// A port of the loopback address.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct LoopbackPort {
    pub version: IpVersion,
    pub protocol: TransportProtocol,
    pub port: u16,
}

/// A socket that accepts packets of any peer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Listener {
    protocol: TransportProtocol,
    /// An IPv4 address that an IPv6 socket serves is an IPv4 address here.
    address: IpAddr,
    port: u16,
}

/// The open socket tables of a network namespace. They stay readable if this process leaves the namespace.
#[derive(Debug)]
pub struct SocketTables {
    tables: Vec<(TransportProtocol, File)>,
}

impl SocketTables {
    /// Opens the tables of the network namespace of `process`, which is `self` or a process id.
    ///
    /// # Errors
    /// Returns an error if the kernel shows no tables of IPv4.
    pub fn open(process: &str) -> io::Result<SocketTables> {
        let open = |name: &str| File::open(format!("/proc/{process}/net/{name}"));
        let mut tables =
            vec![(TransportProtocol::Tcp, open("tcp")?), (TransportProtocol::Udp, open("udp")?)];
        // The kernel may have no IPv6.
        tables.extend(open("tcp6").map(|file| (TransportProtocol::Tcp, file)));
        tables.extend(open("udp6").map(|file| (TransportProtocol::Udp, file)));
        Ok(SocketTables { tables })
    }

    /// Returns the sockets that listen now.
    ///
    /// # Errors
    /// Returns the error of the kernel.
    pub fn read(&mut self) -> io::Result<Vec<Listener>> {
        let mut found = Vec::new();
        for (protocol, file) in &mut self.tables {
            file.rewind()?;
            for line in BufReader::new(&*file).lines().skip(1) {
                let Some((listener, state)) = parse_row(*protocol, &line?) else { continue };
                match (*protocol, state) {
                    (TransportProtocol::Tcp, TCP_LISTEN)
                    | (TransportProtocol::Udp, UDP_UNCONNECTED) => {
                        found.push(listener);
                    }
                    // The kernel lists TCP sockets that listen before all others, of which there may be many.
                    (TransportProtocol::Tcp, _) => break,
                    (TransportProtocol::Udp, _) => {}
                }
            }
        }
        Ok(found)
    }
}

/// Reads a row of a socket table. Its columns are number, local address, peer, state and others. An address is
/// `HEX:PORT`, where `HEX` has 32-bit words in the byte order of the machine.
fn parse_row(protocol: TransportProtocol, line: &str) -> Option<(Listener, u8)> {
    let mut fields = line.split_ascii_whitespace().skip(1);
    let (address, port) = fields.next()?.split_once(':')?;
    let state = u8::from_str_radix(fields.nth(1)?, 16).ok()?;
    let mut bytes = [0; 16];
    for (word, place) in address.as_bytes().chunks(8).zip(bytes.chunks_mut(4)) {
        let word = u32::from_str_radix(std::str::from_utf8(word).ok()?, 16).ok()?;
        place.copy_from_slice(&word.to_ne_bytes());
    }
    let address = match address.len() {
        8 => IpAddr::from([bytes[0], bytes[1], bytes[2], bytes[3]]),
        32 => IpAddr::from(bytes).to_canonical(),
        _ => return None,
    };
    let port = u16::from_str_radix(port, 16).ok()?;
    Some((Listener { protocol, address, port }, state))
}

/// Returns the ports at which `127.0.0.1` and `::1` are served. A socket of all IPv6 addresses counts for both, because
/// the tables do not show whether it serves IPv4 too.
pub fn loopback_ports(listeners: &[Listener]) -> BTreeSet<LoopbackPort> {
    let mut found = BTreeSet::new();
    for Listener { protocol, address, port } in listeners.iter().copied() {
        let versions: &[IpVersion] = match address {
            IpAddr::V4(Ipv4Addr::LOCALHOST | Ipv4Addr::UNSPECIFIED) => &[IpVersion::V4],
            IpAddr::V6(Ipv6Addr::UNSPECIFIED) => &[IpVersion::V4, IpVersion::V6],
            IpAddr::V6(Ipv6Addr::LOCALHOST) => &[IpVersion::V6],
            _ => &[],
        };
        found.extend(versions.iter().map(|&version| LoopbackPort { version, protocol, port }));
    }
    found
}

/// Returns the ports at which the loopback address is served, and neither all addresses nor that of `host`.
pub fn loopback_only_ports(listeners: &[Listener], host: HostAddress) -> BTreeSet<LoopbackPort> {
    let ports_at = |addresses: &[IpAddr]| -> BTreeSet<LoopbackPort> {
        let at = |listener: &&Listener| addresses.contains(&listener.address);
        let version = if addresses[0].is_ipv4() { IpVersion::V4 } else { IpVersion::V6 };
        let port =
            |&Listener { protocol, port, .. }: &Listener| LoopbackPort { version, protocol, port };
        listeners.iter().filter(at).map(port).collect()
    };
    let v4 = ports_at(&[Ipv4Addr::LOCALHOST.into()]);
    let v6 = ports_at(&[Ipv6Addr::LOCALHOST.into()]);
    let reachable = &ports_at(&[Ipv4Addr::UNSPECIFIED.into(), host.v4.into()])
        | &ports_at(&[Ipv6Addr::UNSPECIFIED.into(), host.v6.into()]);
    &(&v4 | &v6) - &reachable
}

#[cfg(test)]
mod tests {
    use std::net::{TcpListener, UdpSocket};

    use super::*;

    fn listener(protocol: TransportProtocol, address: &str, port: u16) -> Listener {
        Listener { protocol, address: address.parse().expect("an address"), port }
    }

    fn key(version: IpVersion, protocol: TransportProtocol, port: u16) -> LoopbackPort {
        LoopbackPort { version, protocol, port }
    }

    #[test]
    fn sockets_of_this_process_are_found_while_they_listen() {
        let mut tables = SocketTables::open("self").expect("tables");
        let tcp = TcpListener::bind("127.0.0.1:0").expect("a port");
        let udp = UdpSocket::bind("127.0.0.1:0").expect("a port");
        let port = |address: io::Result<std::net::SocketAddr>| address.expect("an address").port();
        let (tcp_port, udp_port) = (port(tcp.local_addr()), port(udp.local_addr()));
        let connection =
            std::net::TcpStream::connect(("127.0.0.1", tcp_port)).expect("a connection");
        let client_port = port(connection.local_addr());
        let read = |tables: &mut SocketTables| tables.read().expect("rows");
        let found = read(&mut tables);
        assert!(found.contains(&listener(TransportProtocol::Tcp, "127.0.0.1", tcp_port)));
        assert!(found.contains(&listener(TransportProtocol::Udp, "127.0.0.1", udp_port)));
        assert!(!found.contains(&listener(TransportProtocol::Tcp, "127.0.0.1", client_port)));
        drop(tcp);
        assert!(!read(&mut tables).contains(&listener(
            TransportProtocol::Tcp,
            "127.0.0.1",
            tcp_port
        )));
    }

    #[test]
    fn rows_have_words_in_the_byte_order_of_the_machine() {
        let word = |bytes: [u8; 4]| format!("{:08X}", u32::from_ne_bytes(bytes));
        let row =
            |address: &str| format!("   0: {address}:1F40 00000000:0000 0A 00000000:00000000");
        let parse = |address: &str| parse_row(TransportProtocol::Tcp, &row(address));
        let found =
            |address: &str| Some((listener(TransportProtocol::Tcp, address, 8000), TCP_LISTEN));
        assert_eq!(parse(&word([127, 0, 0, 1])), found("127.0.0.1"));
        let zero = word([0; 4]).repeat(2);
        assert_eq!(parse(&format!("{zero}{}{}", word([0; 4]), word([0, 0, 0, 1]))), found("::1"));
        let mapped = format!("{zero}{}{}", word([0, 0, 255, 255]), word([127, 0, 0, 1]));
        assert_eq!(parse(&mapped), found("127.0.0.1"));
        assert_eq!(parse("0000"), None);
        assert_eq!(parse_row(TransportProtocol::Tcp, "  sl  local_address rem_address   st"), None);
    }

    #[test]
    fn a_port_of_localhost_is_one_of_a_loopback_or_of_all_addresses() {
        use IpVersion::{V4, V6};
        use TransportProtocol::{Tcp, Udp};
        let listeners = [
            listener(Tcp, "127.0.0.1", 1),
            listener(Tcp, "0.0.0.0", 2),
            listener(Udp, "0.0.0.0", 3),
            listener(Udp, "::", 3),
            listener(Tcp, "::1", 4),
            listener(Tcp, "192.0.2.1", 5),
            listener(Tcp, "127.0.0.53", 6),
        ];
        let expected =
            [key(V4, Tcp, 1), key(V4, Tcp, 2), key(V4, Udp, 3), key(V6, Udp, 3), key(V6, Tcp, 4)];
        assert_eq!(loopback_ports(&listeners), expected.into());
    }

    #[test]
    fn a_port_that_the_host_serves_itself_is_not_of_loopback_only() {
        use IpVersion::{V4, V6};
        use TransportProtocol::Tcp;
        let host = HostAddress {
            v4: Ipv4Addr::new(10, 78, 0, 1),
            v6: "fdbe::1".parse().expect("an address"),
        };
        let listeners = [
            listener(Tcp, "127.0.0.1", 1),
            listener(Tcp, "127.0.0.1", 2),
            listener(Tcp, "10.78.0.1", 2),
            listener(Tcp, "127.0.0.1", 3),
            listener(Tcp, "0.0.0.0", 3),
            // A server of IPv6 alone, beside another of IPv4.
            listener(Tcp, "127.0.0.1", 4),
            listener(Tcp, "::", 4),
            listener(Tcp, "::1", 5),
            listener(Tcp, "::1", 6),
            listener(Tcp, "fdbe::1", 6),
        ];
        let expected = [key(V4, Tcp, 1), key(V4, Tcp, 4), key(V6, Tcp, 5)];
        assert_eq!(loopback_only_ports(&listeners, host), expected.into());
    }
}
