//! NAT from the far side of a path to the networks of the machine: forwarding and masquerading. Both end with this
//! process, even if it is killed. The last lab that uses the settings restores them.

use std::io;
use std::net::IpAddr;

use super::rule_table::RuleTable;
use super::user_network::MachineAddress;
use crate::lab::HostAddress;
use crate::sysctl_lease::SysctlLease;

/// The settings that enable forwarding.
const FORWARDING: [&str; 2] =
    ["/proc/sys/net/ipv4/ip_forward", "/proc/sys/net/ipv6/conf/all/forwarding"];

/// The resources that must exist while NAT is active.
#[derive(Debug)]
pub struct Nat {
    _rules: RuleTable,
    _forwarding: Option<SysctlLease>,
}

/// The network to which the path is connected.
#[derive(Clone, Copy, Debug)]
pub enum UplinkNetwork {
    /// The network of the machine, shared with other programs.
    Machine,
    /// A user-mode network, which shows the machine at an address. Packets for `far` are translated to this address.
    UserNetwork { machine: MachineAddress, far: HostAddress },
}

/// Forwards packets of `near` from `device` to all other devices, and masquerades their source address.
///
/// # Errors
/// Returns an error if `nft` is missing, or the error of the kernel.
pub fn open(device: &str, near: HostAddress, uplink: UplinkNetwork) -> io::Result<Nat> {
    let forwarding = match uplink {
        UplinkNetwork::Machine => Some(SysctlLease::acquire(&FORWARDING)?),
        UplinkNetwork::UserNetwork { .. } => {
            FORWARDING.iter().try_for_each(|setting| std::fs::write(setting, "1"))?;
            None
        }
    };
    let HostAddress { v4: near, v6: near_v6 } = near;
    let table = format!("bentpipe_{}", std::process::id());
    let mut rules = format!(
        "add chain inet {table} post {{ type nat hook postrouting priority srcnat; }}\n\
         add rule inet {table} post ip saddr {near} oifname != \"{device}\" masquerade\n\
         add rule inet {table} post ip6 saddr {near_v6} oifname != \"{device}\" masquerade\n"
    );
    if let UplinkNetwork::UserNetwork { machine, far } = uplink {
        rules += &format!(
            "add chain inet {table} pre {{ type nat hook prerouting priority dstnat; }}\n"
        );
        let mut redirect = |family: &str, far: IpAddr, machine: IpAddr| {
            rules += &format!(
                "add rule inet {table} pre iifname \"{device}\" {family} daddr {far} meta l4proto {{ tcp, udp }} \
                 dnat {family} to {machine}\n"
            );
        };
        redirect("ip", far.v4.into(), machine.v4.into());
        if let Some(v6) = machine.v6 {
            redirect("ip6", far.v6.into(), v6.into());
        }
    }
    Ok(Nat { _rules: RuleTable::install(&table, &rules)?, _forwarding: forwarding })
}
