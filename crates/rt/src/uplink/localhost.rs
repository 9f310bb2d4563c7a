//! `localhost` of the client leads to the server side (docs/decisions/0090).
//!
//! The namespace of the client translates the destination of its own connections to `127.0.0.1` and `::1`, so that they
//! cross the path. It does so for the ports at which the server side serves its loopback addresses. The server side
//! translates the destination back where only the loopback address is served. Both are the kernel's: each TCP
//! connection has one client and one server socket.

use std::collections::BTreeSet;
use std::io;
use std::sync::mpsc::{self, RecvTimeoutError, Sender};
use std::thread::JoinHandle;
use std::time::Duration;

use emu::namespace;

use super::listeners::{
    IpVersion, Listener, LoopbackPort, SocketTables, TransportProtocol, loopback_only_ports,
    loopback_ports,
};
use super::rule_table::RuleTable;
use crate::lab::HostAddress;
use crate::namespace::handle::Namespace;

/// Interval between two looks at the ports of the server side. A look takes 3 ms of a processor where the kernel has a
/// large table of connections.
const READ_INTERVAL: Duration = Duration::from_secs(1);

/// The metric of an additional local route. The kernel's own has 0.
const ROUTE_METRIC: u32 = 1024;

/// Most ports that the client keeps free: their text has to fit one page of a kernel setting.
const MAX_RESERVED_PORTS: usize = 600;

/// One end of the path.
#[derive(Clone, Copy)]
pub struct PathEnd<'a> {
    pub namespace: &'a Namespace,
    /// The device of the path.
    pub device: &'a str,
    pub address: HostAddress,
}

/// The way from the server end of the path to the loopback addresses of the server side.
#[derive(Clone, Copy)]
pub enum LoopbackAccess {
    /// They belong to the namespace of that end.
    Direct,
    /// A user-mode network translates all ports to those of the machine.
    UserNetwork { has_v6: bool },
}

/// Forwarding of `localhost`, which ends with this value.
#[derive(Debug)]
pub struct LocalhostForwarding {
    stop: Option<Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Drop for LocalhostForwarding {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

impl LocalhostForwarding {
    /// Forwards the ports at which the tables in `sockets` have listeners, now and later.
    ///
    /// # Errors
    /// Returns an error if `nft` is missing, or the error of the kernel.
    pub fn open(
        client: PathEnd<'_>,
        server: PathEnd<'_>,
        access: LoopbackAccess,
        sockets: SocketTables,
        mtu: u16,
    ) -> io::Result<LocalhostForwarding> {
        // TCP derives its segments and windows from the device of the destination before its translation.
        client.namespace.run_ip(&format!("link set lo mtu {mtu}\n"))?;
        accept_loopback_addresses(client)?;
        let (client_rules, server_rules) = (client_chains(client, server), server_chains(server));
        let server_table = match access {
            LoopbackAccess::Direct => {
                accept_loopback_addresses(server)?;
                Some(PortTable::install(server.namespace, &server_rules)?)
            }
            LoopbackAccess::UserNetwork { .. } => None,
        };
        let mut forwarder = Forwarder {
            sockets,
            access,
            server: server.address,
            client_table: PortTable::install(client.namespace, &client_rules)?,
            server_table,
            client_network: client.namespace.network.try_clone()?,
        };
        forwarder.update()?;
        let (stop, stopped) = mpsc::channel();
        let thread = std::thread::Builder::new().name("localhost".to_owned()).spawn(move || {
            while stopped.recv_timeout(READ_INTERVAL) == Err(RecvTimeoutError::Timeout) {
                if forwarder.update().is_err() {
                    // The table has ended with its `nft`; the command has its own loopback addresses again.
                    return;
                }
            }
        })?;
        Ok(LocalhostForwarding { stop: Some(stop), thread: Some(thread) })
    }
}

/// Lets packets from and to loopback addresses pass between the device of the path and the sockets of its end.
fn accept_loopback_addresses(end: PathEnd<'_>) -> io::Result<()> {
    let device = end.device;
    end.namespace.set_sysctl(&format!("net.ipv4.conf.{device}.route_localnet"), "1")?;
    // IPv6 has no such setting: a packet for `::1` needs a local route by the device on which it arrived. Other labs
    // have such routes by other devices.
    end.namespace
        .run_ip(&format!("route append local ::1 dev {device} table local metric {ROUTE_METRIC}\n"))
}

/// Returns the name of the table of this lab.
fn table_name() -> String {
    format!("bentpipe_localhost_{}", std::process::id())
}

/// Returns the name of the set of a port.
fn set_name(version: IpVersion, protocol: TransportProtocol) -> &'static str {
    match (protocol, version) {
        (TransportProtocol::Tcp, IpVersion::V4) => "tcp4",
        (TransportProtocol::Tcp, IpVersion::V6) => "tcp6",
        (TransportProtocol::Udp, IpVersion::V4) => "udp4",
        (TransportProtocol::Udp, IpVersion::V6) => "udp6",
    }
}

/// Returns rules that translate the destination `from` to `to`, at the ports of the sets, in `chain`.
fn translations(chain: &str, condition: &str, from: HostAddress, to: HostAddress) -> String {
    let table = table_name();
    let rule = |family: &str, number: u8, protocol: &str, from: String, to: String| {
        format!(
            "add rule inet {table} {chain} {condition} {family} daddr {from} \
             {protocol} dport @{protocol}{number} dnat {family} to {to}\n"
        )
    };
    ["tcp", "udp"]
        .iter()
        .map(|protocol| {
            rule("ip", 4, protocol, from.v4.to_string(), to.v4.to_string())
                + &rule("ip6", 6, protocol, from.v6.to_string(), to.v6.to_string())
        })
        .collect()
}

/// The loopback addresses.
const LOOPBACK: HostAddress =
    HostAddress { v4: std::net::Ipv4Addr::LOCALHOST, v6: std::net::Ipv6Addr::LOCALHOST };

/// Returns the rules of the client: the destination becomes the server, the source the client.
fn client_chains(client: PathEnd<'_>, server: PathEnd<'_>) -> String {
    let (table, device, HostAddress { v4, v6 }) = (table_name(), client.device, client.address);
    format!(
        // Some versions of `nft` know the name `dstnat` only for prerouting chains: its priority is -100.
        "add chain inet {table} out {{ type nat hook output priority -100; }}\n\
         {}\
         add chain inet {table} post {{ type nat hook postrouting priority srcnat; }}\n\
         add rule inet {table} post oifname \"{device}\" ip saddr 127.0.0.1 snat ip to {v4}\n\
         add rule inet {table} post oifname \"{device}\" ip6 saddr ::1 snat ip6 to {v6}\n",
        translations("out", "", LOOPBACK, server.address)
    )
}

/// Returns the rules of the server side: the destination becomes the loopback address.
fn server_chains(server: PathEnd<'_>) -> String {
    let condition = format!("iifname \"{}\"", server.device);
    format!(
        "add chain inet {} pre {{ type nat hook prerouting priority dstnat; }}\n{}",
        table_name(),
        translations("pre", &condition, server.address, LOOPBACK)
    )
}

/// A table of rules with sets of ports.
struct PortTable {
    rules: RuleTable,
    ports: BTreeSet<LoopbackPort>,
}

impl PortTable {
    /// Installs the table in a namespace, with empty sets.
    fn install(namespace: &Namespace, chains: &str) -> io::Result<PortTable> {
        let table = table_name();
        let mut lines = String::new();
        for version in [IpVersion::V4, IpVersion::V6] {
            for protocol in [TransportProtocol::Tcp, TransportProtocol::Udp] {
                let set = set_name(version, protocol);
                lines += &format!("add set inet {table} {set} {{ type inet_service; }}\n");
            }
        }
        lines += chains;
        let install = || RuleTable::install(&table, &lines);
        let rules = namespace::run_in(&namespace.network, install)?;
        Ok(PortTable { rules, ports: BTreeSet::new() })
    }

    /// Changes the sets to `ports`. Returns whether they differ from before.
    fn update(&mut self, ports: BTreeSet<LoopbackPort>) -> io::Result<bool> {
        let lines = changes(&self.ports, &ports);
        if lines.is_empty() {
            return Ok(false);
        }
        self.rules.run(&lines)?;
        self.ports = ports;
        Ok(true)
    }
}

/// Returns the commands of `nft` that change the sets.
fn changes(before: &BTreeSet<LoopbackPort>, after: &BTreeSet<LoopbackPort>) -> String {
    let table = table_name();
    let command = |verb: &str, one: &LoopbackPort| {
        let set = set_name(one.version, one.protocol);
        format!("{verb} element inet {table} {set} {{ {} }}\n", one.port)
    };
    let deleted = before.difference(after).map(|one| command("delete", one));
    deleted.chain(after.difference(before).map(|one| command("add", one))).collect()
}

/// The state of the forwarding.
struct Forwarder {
    sockets: SocketTables,
    access: LoopbackAccess,
    server: HostAddress,
    client_table: PortTable,
    server_table: Option<PortTable>,
    client_network: std::fs::File,
}

impl Forwarder {
    /// Follows the listeners of the server side.
    fn update(&mut self) -> io::Result<()> {
        let listeners: Vec<Listener> = self.sockets.read()?;
        if let Some(table) = &mut self.server_table {
            table.update(loopback_only_ports(&listeners, self.server))?;
        }
        let mut ports = loopback_ports(&listeners);
        if let LoopbackAccess::UserNetwork { has_v6: false } = self.access {
            ports.retain(|one| one.version == IpVersion::V4);
        }
        let reserved = reserved_ports(&ports);
        if self.client_table.update(ports)? {
            // The kernel chooses none of them for a server of the command that asks for any free port.
            namespace::run_in(&self.client_network, || {
                std::fs::write("/proc/sys/net/ipv4/ip_local_reserved_ports", &reserved)
            })?;
        }
        Ok(())
    }
}

/// Returns the text of the setting that reserves these ports.
fn reserved_ports(ports: &BTreeSet<LoopbackPort>) -> String {
    let numbers: BTreeSet<u16> = ports.iter().map(|one| one.port).collect();
    let highest = numbers.into_iter().rev().take(MAX_RESERVED_PORTS);
    let mut text = highest.map(|port| port.to_string()).collect::<Vec<_>>().join(",");
    text.push('\n');
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_differs_is_changed() {
        let port = |version, port| LoopbackPort { version, protocol: TransportProtocol::Tcp, port };
        let before = BTreeSet::from([port(IpVersion::V4, 80), port(IpVersion::V4, 8000)]);
        let after = BTreeSet::from([port(IpVersion::V4, 80), port(IpVersion::V6, 8000)]);
        let table = table_name();
        assert_eq!(
            changes(&before, &after),
            format!(
                "delete element inet {table} tcp4 {{ 8000 }}\nadd element inet {table} tcp6 {{ 8000 }}\n"
            )
        );
        assert_eq!(changes(&after, &after), "");
        assert_eq!(reserved_ports(&(&before | &after)), "8000,80\n");
    }
}
