//! The way outside for an ordinary user: a network in user space (pasta or slirp4netns) between the far side of a path
//! and the machine's own network.
//!
//! It has to start in the machine's network, which this process leaves when it becomes root of a namespace of its own.
//! So a helper is started before, and waits for its word to become the tool. The kernel ends it with this process,
//! however that ends.

use std::fs::File;
use std::io::{self, Read, Seek, Write};
use std::net::{Ipv4Addr, Ipv6Addr};
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use emu::namespace;
use nix::sys::signal::Signal;
use rustix::fs::{MemfdFlags, memfd_create};

/// Longest wait for the way.
const PATIENCE: Duration = Duration::from_secs(10);
/// Between two looks for the way's route.
const LOOK: Duration = Duration::from_millis(5);

/// The device that leads outside.
const DEVICE: &str = "outside";

/// Largest packet on it: an IP packet's longest, in whole words of 32 bits, less Ethernet's header, as both tools have it.
const MTU: &str = "65520";

/// No address, and no mask, in the kernel's table of routes.
const NONE: &str = "00000000";

/// What leads outside.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Tool {
    Pasta,
    Slirp,
}

impl Tool {
    /// The first that is there is taken (docs/decisions/0074).
    const ALL: [Tool; 2] = [Tool::Pasta, Tool::Slirp];

    fn name(self) -> &'static str {
        match self {
            Tool::Pasta => "pasta",
            Tool::Slirp => "slirp4netns",
        }
    }

    /// Where the machine itself is by IPv6, if it is anywhere.
    fn machine_v6(self) -> Option<Ipv6Addr> {
        match self {
            Tool::Pasta => Some(Ipv6Addr::new(0xfdbe, 0, 0, 0xffff, 0, 0, 0, 2)),
            Tool::Slirp => None,
        }
    }

    /// The words that lead from the network of `process` by [`DEVICE`].
    fn words(self, process: &str, is_routed: bool) -> Vec<&str> {
        match self {
            Tool::Slirp => vec!["--configure", "--mtu", MTU, "--enable-ipv6", process, DEVICE],
            Tool::Pasta => {
                let mut words = vec!["--foreground", "--quiet", "--config-net", "--mtu", MTU];
                words.extend(["--ns-ifname", DEVICE]);
                // Of its own, not the machine's, which then could not be reached; an interface without Ethernet's would
                // give none.
                words.extend(["--mac-addr", "02:00:00:00:00:02"]);
                words.extend([
                    "--address",
                    "10.0.2.100",
                    "--netmask",
                    "24",
                    "--gateway",
                    "10.0.2.2",
                ]);
                words.extend(["--address", "fdbe:0:0:ffff::100", "--gateway", "fdbe:0:0:ffff::2"]);
                // The machine's own servers alone are left where no route leads away from it.
                words.extend(["--interface", "lo"].iter().filter(|_| !is_routed));
                // Only what the command asks for: no port is opened on the machine, and none of its ports inside.
                for ports in ["--tcp-ports", "--udp-ports", "--tcp-ns", "--udp-ns"] {
                    words.extend([ports, "none"]);
                }
                words.extend(["--no-dhcp", "--no-dhcpv6", "--no-ra", process]);
                words
            }
        }
    }
}

/// Where the machine itself is in a network that leads outside.
#[derive(Clone, Copy, Debug)]
pub struct Machine {
    pub v4: Ipv4Addr,
    pub v6: Option<Ipv6Addr>,
}

/// A way outside: to be, or open.
#[derive(Debug)]
pub struct Outside {
    tool: Tool,
    helper: Child,
    /// What it says of itself.
    said: File,
}

impl Outside {
    /// The helper, in the network of the caller; none where nothing that leads outside is installed.
    ///
    /// # Errors
    /// It cannot be started.
    pub fn prepare() -> io::Result<Option<Outside>> {
        let mut tools = Tool::ALL;
        if !is_routed()? {
            // Of a machine without, pasta leads to nothing but the machine itself.
            tools.reverse();
        }
        let Some(tool) = tools.into_iter().find(|tool| namespace::has_tool(tool.name())) else {
            return Ok(None);
        };
        // Not a pipe, which would end it or hold it up once nobody reads.
        let said = File::from(memfd_create("outside", MemfdFlags::CLOEXEC)?);
        let helper = Command::new("/proc/self/exe")
            .args(["outside", tool.name(), &std::process::id().to_string()])
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(said.try_clone()?)
            // Ctrl-C is the command's.
            .process_group(0)
            .spawn()?;
        Ok(Some(Outside { tool, helper, said }))
    }

    /// Why there is none where [`Outside::prepare`] finds none.
    pub fn none() -> io::Error {
        let [first, other] = Tool::ALL.map(Tool::name);
        io::Error::other(format!(
            "neither {first} nor {other} is installed (Debian: passt, or slirp4netns)"
        ))
    }

    /// Opens the way from the network that this process is in now; where the machine itself is there.
    ///
    /// # Errors
    /// There is none, within ten seconds.
    pub fn open(&mut self) -> io::Result<Machine> {
        if let Some(input) = &mut self.helper.stdin {
            // An end before this one is seen below.
            let _ = input.write_all(b"!");
        }
        let mut waited = Duration::ZERO;
        while waited < PATIENCE && self.helper.try_wait()?.is_none() {
            if let Some(v4) = routes()?.lines().find_map(|line| default_by(line, DEVICE)) {
                return Ok(Machine { v4, v6: self.tool.machine_v6() });
            }
            std::thread::sleep(LOOK);
            waited += LOOK;
        }
        let mut said = String::new();
        self.said.rewind()?;
        let _ = self.said.read_to_string(&mut said);
        Err(io::Error::other(format!(
            "{} opened no way outside{}; --no-outside goes on without",
            self.tool.name(),
            reason(&said)
        )))
    }
}

impl Drop for Outside {
    fn drop(&mut self) {
        let _ = self.helper.kill();
        let _ = self.helper.wait();
    }
}

/// The last lines of what a tool has said, but for what pasta says where there is no syslog.
fn reason(said: &str) -> String {
    let mut lines: Vec<&str> = said
        .lines()
        .map(str::trim)
        .filter(|line| !line.is_empty() && !line.ends_with("to syslog"))
        .collect();
    let last = lines.split_off(lines.len().saturating_sub(2));
    if last.is_empty() { String::new() } else { format!(" ({})", last.join("; ")) }
}

/// Routes of this process's network (proc_net(5), `route`): device, destination, gateway, ...
fn routes() -> io::Result<String> {
    std::fs::read_to_string("/proc/self/net/route")
}

/// Whether packets for everywhere go somewhere.
fn is_routed() -> io::Result<bool> {
    Ok(routes()?.lines().any(is_default))
}

/// Whether a line of the table is a default route, by some device (one by `*` refuses packets).
fn is_default(line: &str) -> bool {
    let fields: Vec<&str> = line.split_ascii_whitespace().collect();
    fields.first() != Some(&"*") && fields.get(1) == Some(&NONE) && fields.get(7) == Some(&NONE)
}

/// The gateway of a line of the table, if that is the default route by `device`.
fn default_by(line: &str, device: &str) -> Option<Ipv4Addr> {
    let mut fields = line.split_ascii_whitespace();
    let is_meant = is_default(line) && fields.next() == Some(device);
    let gateway = fields.nth(1).filter(|_| is_meant)?;
    // As the kernel keeps it: in the order of the network.
    let gateway = u32::from_str_radix(gateway, 16).ok().filter(|number| *number != 0)?;
    Some(Ipv4Addr::from(gateway.to_ne_bytes()))
}

/// The helper: waits for the word of `process`, then leads from its network as the tool of this name.
///
/// # Errors
/// What leads outside cannot be started.
pub fn lead(name: &str, process: &str) -> io::Result<u8> {
    namespace::end_with(process.parse().map_err(io::Error::other)?, Signal::SIGKILL)?;
    let known = || io::Error::other(format!("{name} leads nowhere"));
    let tool = Tool::ALL.into_iter().find(|tool| tool.name() == name).ok_or_else(known)?;
    if io::stdin().read(&mut [0])? == 0 {
        return Ok(0);
    }
    let mut command = namespace::tool(name);
    command.args(tool.words(process, is_routed()?));
    // Its end comes with the signal that was asked for above, which outlives this.
    Err(command.exec())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_default_route_by_its_device_alone() {
        let lines = [
            "Iface\tDestination\tGateway \tFlags\tRefCnt\tUse\tMetric\tMask",
            "eth0\t00000000\t010200C0\t0003\t0\t0\t0\t00000000",
            "outside\t0002000A\t00000000\t0001\t0\t0\t0\t00FFFFFF",
            "outside\t00000000\t010200C0\t0003\t0\t0\t0\t00000080",
        ];
        assert!(lines.iter().all(|line| default_by(line, DEVICE).is_none()));
        assert_eq!(lines.map(is_default), [false, true, false, false]);
        assert!(!is_default("*\t00000000\t00000000\t0200\t0\t0\t0\t00000000"));
        let number = u32::from_ne_bytes([10, 0, 2, 2]);
        let line = format!("outside\t00000000\t{number:08X}\t0003\t0\t0\t0\t00000000");
        assert_eq!(default_by(&line, DEVICE), Some(Ipv4Addr::new(10, 0, 2, 2)));
    }

    #[test]
    fn the_reason_is_what_was_said_last() {
        let said = "No external routable interface for IPv4\nFailed to send 36 bytes to syslog\n\
                    External interface not usable\n";
        assert_eq!(
            reason(said),
            " (No external routable interface for IPv4; External interface not usable)"
        );
        assert_eq!(reason("Failed to send 36 bytes to syslog\n"), "");
    }

    #[test]
    fn only_a_machine_without_a_route_is_led_to_by_its_loopback() {
        let by_loopback = |is_routed| Tool::Pasta.words("1", is_routed).contains(&"lo");
        assert_eq!([true, false].map(by_loopback), [false, true]);
    }
}
