//! NAT from the far side of a path to the networks of the machine: forwarding and masquerading. Both end with this
//! process, even if it is killed. A dedicated `nft` process owns the table of rules. The last lab that uses the
//! settings restores them.

use std::io::{self, BufRead, BufReader, Write};
use std::net::IpAddr;
use std::os::unix::process::CommandExt;
use std::process::{Child, Stdio};

use super::user_network::MachineAddress;
use crate::lab::HostAddress;
use crate::sysctl_lease::SysctlLease;

/// The tool that configures masquerading.
const NFT: &str = "nft";

/// The settings that enable forwarding.
const FORWARDING: [&str; 2] =
    ["/proc/sys/net/ipv4/ip_forward", "/proc/sys/net/ipv6/conf/all/forwarding"];

/// The resources that must exist while NAT is active.
#[derive(Debug)]
pub struct Nat {
    rules: Child,
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

impl Drop for Nat {
    fn drop(&mut self) {
        // The end of its standard input ends `nft`, and thereby the rules.
        drop(self.rules.stdin.take());
        let _ = self.rules.wait();
    }
}

/// Checks whether `nft` is installed, before any setup starts that would wait for the result.
///
/// # Errors
/// Returns an error if it is missing.
pub fn check_available() -> io::Result<()> {
    let found = emu::namespace::has_tool(NFT);
    if found { Ok(()) } else { Err(missing_error(io::ErrorKind::NotFound.into())) }
}

fn missing_error(error: io::Error) -> io::Error {
    io::Error::other(format!("nft: {error} (Debian: nftables)"))
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
        "add table inet {table} {{ flags owner; }}\n\
         add chain inet {table} post {{ type nat hook postrouting priority srcnat; }}\n\
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
    rules += &format!("list table inet {table}\n");
    let (output, output_writer) = io::pipe()?;
    let child = emu::namespace::system_command(NFT)
        .arg("-i")
        .stdin(Stdio::piped())
        .stdout(output_writer.try_clone()?)
        .stderr(output_writer)
        // A separate process group, because Ctrl-C is for the command that runs in the lab.
        .process_group(0)
        .spawn()
        .map_err(missing_error)?;
    let mut nat = Nat { rules: child, _forwarding: forwarding };
    if let Some(input) = &mut nat.rules.stdin {
        input.write_all(rules.as_bytes())?;
        input.flush()?;
    }
    wait_until_listed(BufReader::new(output))?;
    Ok(nat)
}

/// Waits until `nft` has listed the table. Before the rules, packets would leave with an address without return route.
fn wait_until_listed(output: impl BufRead) -> io::Result<()> {
    for line in output.lines() {
        let line = line?;
        if line == "}" {
            return Ok(());
        }
        if let Some(at) = line.find("Error: ") {
            return Err(io::Error::other(format!("nft: {}", &line[at + "Error: ".len()..])));
        }
    }
    Err(io::Error::other("nft: exited before it installed its rules"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nft_is_ready_after_the_complete_table() {
        let table = "table inet t { # progname nft\n\tflags owner\n\n\tchain post {\n\t}\n}\n";
        let wait =
            |text: &str| wait_until_listed(text.as_bytes()).map_err(|error| error.to_string());
        assert_eq!(wait(table), Ok(()));
        assert_eq!(wait(&format!("nft> {table}")), Ok(()));
        let refused =
            "Error: Could not process rule: Operation not supported\nadd chain inet t post\n";
        assert_eq!(
            wait(refused),
            Err("nft: Could not process rule: Operation not supported".to_owned())
        );
        let half = table.trim_end_matches("}\n");
        assert_eq!(wait(half), Err("nft: exited before it installed its rules".to_owned()));
    }
}
