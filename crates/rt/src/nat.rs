//! The way from the far side of a path to the networks of the machine: forwarding and masquerading.
//! Both end with this process, however it ends: the table of rules belongs to a process that has no
//! other purpose, and settings that outlive a device are put back by the last of the labs that share them.

use std::io::{self, BufRead, BufReader, Write};
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
    rules += &format!("list table inet {table}\n");
    let (said, says) = io::pipe()?;
    let child = emu::namespace::tool(TOOL)
        .arg("-i")
        .stdin(Stdio::piped())
        .stdout(says.try_clone()?)
        .stderr(says)
        // Ctrl-C is the command's.
        .process_group(0)
        .spawn()
        .map_err(absent)?;
    let mut nat = Nat { rules: child, _forwarding: forwarding };
    if let Some(input) = &mut nat.rules.stdin {
        input.write_all(rules.as_bytes())?;
        input.flush()?;
    }
    listed(BufReader::new(said))?;
    Ok(nat)
}

/// Waits until `nft` has listed the table: a packet before its rules would leave with an address that nobody answers.
fn listed(said: impl BufRead) -> io::Result<()> {
    for line in said.lines() {
        let line = line?;
        if line == "}" {
            return Ok(());
        }
        if let Some(at) = line.find("Error: ") {
            return Err(io::Error::other(format!("nft: {}", &line[at + "Error: ".len()..])));
        }
    }
    Err(io::Error::other("nft: ended before it had made its rules"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_table_is_there_when_it_is_listed_whole() {
        let table = "table inet t { # progname nft\n\tflags owner\n\n\tchain post {\n\t}\n}\n";
        let told = |text: &str| listed(text.as_bytes()).map_err(|error| error.to_string());
        assert_eq!(told(table), Ok(()));
        assert_eq!(told(&format!("nft> {table}")), Ok(()));
        let refused =
            "Error: Could not process rule: Operation not supported\nadd chain inet t post\n";
        assert_eq!(
            told(refused),
            Err("nft: Could not process rule: Operation not supported".to_owned())
        );
        let half = table.trim_end_matches("}\n");
        assert_eq!(told(half), Err("nft: ended before it had made its rules".to_owned()));
    }
}
