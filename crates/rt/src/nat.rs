//! The way from the far side of a path to the networks of the machine: forwarding and masquerading.
//! Both end with this process, however it ends: the table of rules belongs to a process that has no
//! other purpose, and settings that outlive a device are put back by a guard.

use std::io::{self, Read, Write};
use std::net::Ipv4Addr;
use std::process::{Child, Command, Stdio};

/// What must stay alive as long as the way is open.
#[derive(Debug)]
pub struct Nat {
    rules: Child,
    guard: Option<Child>,
}

impl Drop for Nat {
    fn drop(&mut self) {
        // Their standard input ends, and with it they.
        for child in [Some(&mut self.rules), self.guard.as_mut()].into_iter().flatten() {
            drop(child.stdin.take());
            let _ = child.wait();
        }
    }
}

/// Whether `nft` is there: asked before anything is set up that would have to wait for the answer.
///
/// # Errors
/// It is not.
pub fn ready() -> io::Result<()> {
    let mut command = emu::namespace::tool("nft");
    command.arg("--version").stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    command.status().map(|_| ()).map_err(absent)
}

fn absent(error: io::Error) -> io::Error {
    io::Error::other(format!("nft: {error} (Debian: nftables)"))
}

/// Lets packets of `near` (IPv4) and `near_v6` pass from `device` to every other device, with this side's address.
///
/// # Errors
/// `nft` is not there, or the kernel refuses.
pub fn open(device: &str, near: Ipv4Addr, near_v6: std::net::Ipv6Addr) -> io::Result<Nat> {
    let wanted = ["/proc/sys/net/ipv4/ip_forward", "/proc/sys/net/ipv6/conf/all/forwarding"];
    let mut changed = Vec::new();
    for place in wanted {
        let before = std::fs::read_to_string(place)?;
        if before.trim() == "0" {
            changed.push(place);
        }
    }
    let guard = if changed.is_empty() { None } else { Some(start_guard(&changed)?) };
    for place in &changed {
        std::fs::write(place, "1")?;
    }
    let table = format!("bentpipe_{}", std::process::id());
    let rules = format!(
        "add table inet {table} {{ flags owner; }}\n\
         add chain inet {table} post {{ type nat hook postrouting priority srcnat; }}\n\
         add rule inet {table} post ip saddr {near} oifname != \"{device}\" masquerade\n\
         add rule inet {table} post ip6 saddr {near_v6} oifname != \"{device}\" masquerade\n"
    );
    let mut child = emu::namespace::tool("nft")
        .arg("-i")
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .map_err(absent)?;
    if let Some(input) = &mut child.stdin {
        input.write_all(rules.as_bytes())?;
        input.flush()?;
    }
    Ok(Nat { rules: child, guard })
}

fn start_guard(places: &[&str]) -> io::Result<Child> {
    Command::new("/proc/self/exe").arg("guard").args(places).stdin(Stdio::piped()).spawn()
}

/// Waits until whoever started it is gone, and writes 0 into every one of `settings`.
///
/// # Errors
/// A setting cannot be written.
pub fn guard(settings: &[&str]) -> io::Result<u8> {
    // A signal of the terminal is for those in front of it.
    for signal in
        [signal_hook::consts::SIGINT, signal_hook::consts::SIGTERM, signal_hook::consts::SIGHUP]
    {
        signal_hook::flag::register(signal, std::sync::Arc::default())?;
    }
    let mut nothing = [0; 1];
    while let Err(error) = io::stdin().read(&mut nothing) {
        if error.kind() != io::ErrorKind::Interrupted {
            break;
        }
    }
    for setting in settings {
        std::fs::write(setting, "0")?;
    }
    Ok(0)
}
