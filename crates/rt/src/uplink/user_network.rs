//! The uplink of an ordinary user: a user-mode network (pasta or slirp4netns) between the far side of a path and the
//! network of the machine.
//!
//! The tool has to start in the network of the machine, which this process leaves when it becomes root of a namespace.
//! A helper process is therefore started first. It executes the tool on request, and the kernel ends it with this
//! process in all cases.

use std::fs::File;
use std::io::{self, Read, Seek, Write};
use std::net::{Ipv4Addr, Ipv6Addr};
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use emu::namespace;
use nix::sys::signal::Signal;
use rustix::fs::{MemfdFlags, memfd_create};

/// Longest wait for the uplink.
const OPEN_TIMEOUT: Duration = Duration::from_secs(10);
/// Interval between two checks of the route of the uplink.
const POLL_INTERVAL: Duration = Duration::from_millis(5);

/// The device of the uplink.
const DEVICE: &str = "outside";

/// Largest packet of the device, as in both tools: the maximum IP packet in 32-bit words, less the Ethernet header.
const MTU: &str = "65520";

/// An empty address or mask in the routing table of the kernel.
const UNSPECIFIED_HEX: &str = "00000000";

/// A user-mode network tool.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum NetworkTool {
    Pasta,
    Slirp,
}

impl NetworkTool {
    /// The tools by preference (docs/decisions/0074).
    const ALL: [NetworkTool; 2] = [NetworkTool::Pasta, NetworkTool::Slirp];

    fn name(self) -> &'static str {
        match self {
            NetworkTool::Pasta => "pasta",
            NetworkTool::Slirp => "slirp4netns",
        }
    }

    /// Returns the IPv6 address at which the network shows the machine, if any.
    fn host_address_v6(self) -> Option<Ipv6Addr> {
        match self {
            NetworkTool::Pasta => Some(Ipv6Addr::new(0xfdbe, 0, 0, 0xffff, 0, 0, 0, 2)),
            NetworkTool::Slirp => None,
        }
    }

    /// Returns the arguments that connect the network of `process` by [`DEVICE`].
    fn arguments(self, process: &str, has_default_route: bool) -> Vec<&str> {
        match self {
            NetworkTool::Slirp => {
                vec!["--configure", "--mtu", MTU, "--enable-ipv6", process, DEVICE]
            }
            NetworkTool::Pasta => {
                let mut arguments = vec!["--foreground", "--quiet", "--config-net", "--mtu", MTU];
                arguments.extend(["--ns-ifname", DEVICE]);
                // A separate MAC address: that of the machine would make it unreachable, and an interface without
                // Ethernet has no address.
                arguments.extend(["--mac-addr", "02:00:00:00:00:02"]);
                arguments.extend([
                    "--address",
                    "10.0.2.100",
                    "--netmask",
                    "24",
                    "--gateway",
                    "10.0.2.2",
                ]);
                arguments.extend([
                    "--address",
                    "fdbe:0:0:ffff::100",
                    "--gateway",
                    "fdbe:0:0:ffff::2",
                ]);
                // Without a default route only the servers on the machine are reachable.
                arguments.extend(["--interface", "lo"].iter().filter(|_| !has_default_route));
                // Only connections of the command: no port is opened on the machine, and no port of the machine inside.
                for ports in ["--tcp-ports", "--udp-ports", "--tcp-ns", "--udp-ns"] {
                    arguments.extend([ports, "none"]);
                }
                arguments.extend(["--no-dhcp", "--no-dhcpv6", "--no-ra", process]);
                arguments
            }
        }
    }
}

/// The addresses at which a user-mode network shows the machine.
#[derive(Clone, Copy, Debug)]
pub struct MachineAddress {
    pub v4: Ipv4Addr,
    pub v6: Option<Ipv6Addr>,
}

/// An uplink, prepared or open.
#[derive(Debug)]
pub struct UserNetwork {
    tool: NetworkTool,
    helper: Child,
    /// The messages of the tool.
    stderr: File,
}

impl UserNetwork {
    /// Starts the helper in the network of the caller. Returns `None` if no tool is installed.
    ///
    /// # Errors
    /// Returns an error if the helper cannot be started.
    pub fn prepare() -> io::Result<Option<UserNetwork>> {
        let mut tools = NetworkTool::ALL;
        if !has_default_route()? {
            // On a machine without a default route, pasta reaches only the machine.
            tools.reverse();
        }
        let Some(tool) = tools.into_iter().find(|tool| namespace::has_tool(tool.name())) else {
            return Ok(None);
        };
        // A memory file: a pipe without a reader would end or block the tool.
        let stderr = File::from(memfd_create("outside", MemfdFlags::CLOEXEC)?);
        let helper = Command::new("/proc/self/exe")
            .args(["outside", tool.name(), &std::process::id().to_string()])
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(stderr.try_clone()?)
            // A separate process group, because Ctrl-C is for the command that runs in the lab.
            .process_group(0)
            .spawn()?;
        Ok(Some(UserNetwork { tool, helper, stderr }))
    }

    /// Returns the error for the case that [`UserNetwork::prepare`] finds no tool.
    pub fn not_installed_error() -> io::Error {
        let [first, other] = NetworkTool::ALL.map(NetworkTool::name);
        io::Error::other(format!(
            "neither {first} nor {other} is installed (Debian: passt, or slirp4netns)"
        ))
    }

    /// Opens the uplink from the current network of this process. Returns the addresses of the machine there.
    ///
    /// # Errors
    /// Returns an error if no route exists within ten seconds.
    pub fn open(&mut self) -> io::Result<MachineAddress> {
        if let Some(input) = &mut self.helper.stdin {
            // An earlier end of the helper is detected below.
            let _ = input.write_all(b"!");
        }
        let mut waited = Duration::ZERO;
        while waited < OPEN_TIMEOUT && self.helper.try_wait()?.is_none() {
            if let Some(v4) = read_routes()?.lines().find_map(|line| default_gateway(line, DEVICE))
            {
                return Ok(MachineAddress { v4, v6: self.tool.host_address_v6() });
            }
            std::thread::sleep(POLL_INTERVAL);
            waited += POLL_INTERVAL;
        }
        let mut text = String::new();
        self.stderr.rewind()?;
        let _ = self.stderr.read_to_string(&mut text);
        Err(io::Error::other(format!(
            "{} opened no uplink{}; use --isolated to run without an uplink",
            self.tool.name(),
            last_lines(&text)
        )))
    }
}

impl Drop for UserNetwork {
    fn drop(&mut self) {
        let _ = self.helper.kill();
        let _ = self.helper.wait();
    }
}

/// Returns the last two lines of the messages of a tool, without the syslog messages of pasta.
fn last_lines(stderr: &str) -> String {
    let mut lines: Vec<&str> = stderr
        .lines()
        .map(str::trim)
        .filter(|line| !line.is_empty() && !line.ends_with("to syslog"))
        .collect();
    let last = lines.split_off(lines.len().saturating_sub(2));
    if last.is_empty() { String::new() } else { format!(" ({})", last.join("; ")) }
}

/// Reads the routes of the network of this process (proc_net(5), `route`): device, destination, gateway, ...
fn read_routes() -> io::Result<String> {
    std::fs::read_to_string("/proc/self/net/route")
}

/// Returns whether a default route exists.
fn has_default_route() -> io::Result<bool> {
    Ok(read_routes()?.lines().any(is_default_route))
}

/// Returns whether a line of the table is a default route by a device (the device `*` rejects packets).
fn is_default_route(line: &str) -> bool {
    let fields: Vec<&str> = line.split_ascii_whitespace().collect();
    fields.first() != Some(&"*")
        && fields.get(1) == Some(&UNSPECIFIED_HEX)
        && fields.get(7) == Some(&UNSPECIFIED_HEX)
}

/// Returns the gateway of a line of the table, if the line is the default route by `device`.
fn default_gateway(line: &str, device: &str) -> Option<Ipv4Addr> {
    let mut fields = line.split_ascii_whitespace();
    let is_meant = is_default_route(line) && fields.next() == Some(device);
    let gateway = fields.nth(1).filter(|_| is_meant)?;
    // The kernel stores it in network byte order.
    let gateway = u32::from_str_radix(gateway, 16).ok().filter(|number| *number != 0)?;
    Some(Ipv4Addr::from(gateway.to_ne_bytes()))
}

/// Runs the helper: waits for the request of `process`, then executes the tool with this name for its network.
///
/// # Errors
/// Returns an error if the tool cannot be executed.
pub fn exec_tool(name: &str, process: &str) -> io::Result<u8> {
    namespace::set_parent_death_signal(
        process.parse().map_err(io::Error::other)?,
        Signal::SIGKILL,
    )?;
    let unknown_tool = || io::Error::other(format!("unknown tool {name}"));
    let tool =
        NetworkTool::ALL.into_iter().find(|tool| tool.name() == name).ok_or_else(unknown_tool)?;
    if io::stdin().read(&mut [0])? == 0 {
        return Ok(0);
    }
    let mut command = namespace::system_command(name);
    command.args(tool.arguments(process, has_default_route()?));
    // The parent-death signal set above stays valid after exec.
    Err(command.exec())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_default_route_of_the_device_has_a_gateway() {
        let lines = [
            "Iface\tDestination\tGateway \tFlags\tRefCnt\tUse\tMetric\tMask",
            "eth0\t00000000\t010200C0\t0003\t0\t0\t0\t00000000",
            "outside\t0002000A\t00000000\t0001\t0\t0\t0\t00FFFFFF",
            "outside\t00000000\t010200C0\t0003\t0\t0\t0\t00000080",
        ];
        assert!(lines.iter().all(|line| default_gateway(line, DEVICE).is_none()));
        assert_eq!(lines.map(is_default_route), [false, true, false, false]);
        assert!(!is_default_route("*\t00000000\t00000000\t0200\t0\t0\t0\t00000000"));
        let number = u32::from_ne_bytes([10, 0, 2, 2]);
        let line = format!("outside\t00000000\t{number:08X}\t0003\t0\t0\t0\t00000000");
        assert_eq!(default_gateway(&line, DEVICE), Some(Ipv4Addr::new(10, 0, 2, 2)));
    }

    #[test]
    fn the_reason_is_the_last_lines() {
        let stderr = "No external routable interface for IPv4\nFailed to send 36 bytes to syslog\n\
                    External interface not usable\n";
        assert_eq!(
            last_lines(stderr),
            " (No external routable interface for IPv4; External interface not usable)"
        );
        assert_eq!(last_lines("Failed to send 36 bytes to syslog\n"), "");
    }

    #[test]
    fn pasta_uses_loopback_only_without_a_default_route() {
        let by_loopback = |is_routed| NetworkTool::Pasta.arguments("1", is_routed).contains(&"lo");
        assert_eq!([true, false].map(by_loopback), [false, true]);
    }
}
