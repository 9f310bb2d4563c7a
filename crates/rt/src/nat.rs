//! The way from the far side of a path to the networks of the machine: forwarding and masquerading.
//! Both end with this process, however it ends: the table of rules belongs to a process that has no
//! other purpose, and settings that outlive a device are put back by the last of the labs that share them.

use std::io::{self, Write};
use std::net::IpAddr;
use std::os::unix::process::CommandExt;
use std::process::{Child, Stdio};

use crate::lab::Home;
use crate::outside::Machine;
use crate::shared::Shared;

/// What masquerades.
const TOOL: &str = "nft";

/// What makes a machine forward.
const FORWARDING: [&str; 2] =
    ["/proc/sys/net/ipv4/ip_forward", "/proc/sys/net/ipv6/conf/all/forwarding"];

/// What must stay alive as long as the way is open.
#[derive(Debug)]
pub struct Nat {
    rules: Child,
    _forwarding: Option<Shared>,
}

/// Whose network the way leads through.
#[derive(Clone, Copy, Debug)]
pub enum Through {
    /// The machine's, which others share.
    Machine,
    /// One of this process's own, in which the machine itself is somewhere: what asks for `far` there is led to it.
    Own { machine: Machine, far: Home },
}

impl Drop for Nat {
    fn drop(&mut self) {
        // Its standard input ends, and with it the rules.
        drop(self.rules.stdin.take());
        let _ = self.rules.wait();
    }
}

/// Whether `nft` is there: asked before anything is set up that would have to wait for the answer.
///
/// # Errors
/// It is not.
pub fn ready() -> io::Result<()> {
    let found = emu::namespace::has_tool(TOOL);
    if found { Ok(()) } else { Err(absent(io::ErrorKind::NotFound.into())) }
}

fn absent(error: io::Error) -> io::Error {
    io::Error::other(format!("nft: {error} (Debian: nftables)"))
}

/// Lets packets of `near` pass from `device` to every other device, with this side's address.
///
/// # Errors
/// `nft` is not there, or the kernel refuses.
pub fn open(device: &str, near: Home, through: Through) -> io::Result<Nat> {
    let forwarding = match through {
        Through::Machine => Some(Shared::set(&FORWARDING)?),
        Through::Own { .. } => {
            FORWARDING.iter().try_for_each(|setting| std::fs::write(setting, "1"))?;
            None
        }
    };
    let Home { v4: near, v6: near_v6 } = near;
    let table = format!("bentpipe_{}", std::process::id());
    let mut rules = format!(
        "add table inet {table} {{ flags owner; }}\n\
         add chain inet {table} post {{ type nat hook postrouting priority srcnat; }}\n\
         add rule inet {table} post ip saddr {near} oifname != \"{device}\" masquerade\n\
         add rule inet {table} post ip6 saddr {near_v6} oifname != \"{device}\" masquerade\n"
    );
    if let Through::Own { machine, far } = through {
        rules += &format!(
            "add chain inet {table} pre {{ type nat hook prerouting priority dstnat; }}\n"
        );
        let mut lead = |family: &str, far: IpAddr, machine: IpAddr| {
            rules += &format!(
                "add rule inet {table} pre iifname \"{device}\" {family} daddr {far} meta l4proto {{ tcp, udp }} \
                 dnat {family} to {machine}\n"
            );
        };
        lead("ip", far.v4.into(), machine.v4.into());
        if let Some(v6) = machine.v6 {
            lead("ip6", far.v6.into(), v6.into());
        }
    }
    let mut child = emu::namespace::tool(TOOL)
        .arg("-i")
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        // Ctrl-C is the command's.
        .process_group(0)
        .spawn()
        .map_err(absent)?;
    if let Some(input) = &mut child.stdin {
        input.write_all(rules.as_bytes())?;
        input.flush()?;
    }
    Ok(Nat { rules: child, _forwarding: forwarding })
}
