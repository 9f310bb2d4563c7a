//! The way outside for an ordinary user: a network in user space (slirp4netns) between the far side of a path and the
//! machine's own network.
//!
//! It has to start in the machine's network, which this process leaves when it becomes root of a namespace of its own.
//! So a helper is started before, and waits for its word to become slirp4netns. Both end with this process, however that
//! ends: their standard input is a pipe from here.

use std::io::{self, Read, Write};
use std::net::Ipv4Addr;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

/// Longest wait for the way.
const PATIENCE: Duration = Duration::from_secs(10);
/// Between two looks for the way's route.
const LOOK: Duration = Duration::from_millis(5);

/// What leads outside.
const TOOL: &str = "slirp4netns";

/// The device that leads outside.
const DEVICE: &str = "outside";

/// A way outside: to be, or open.
#[derive(Debug)]
pub struct Outside {
    helper: Child,
}

impl Outside {
    /// The helper, in the network of the caller; none where nothing that leads outside is installed.
    ///
    /// # Errors
    /// It cannot be started.
    pub fn prepare() -> io::Result<Option<Outside>> {
        if !emu::namespace::has_tool(TOOL) {
            return Ok(None);
        }
        let helper = Command::new("/proc/self/exe")
            .args(["outside", &std::process::id().to_string()])
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            // Ctrl-C is the command's.
            .process_group(0)
            .spawn()?;
        Ok(Some(Outside { helper }))
    }

    /// Opens the way from the network that this process is in now; the address there at which the machine itself is.
    ///
    /// # Errors
    /// There is none, within ten seconds.
    pub fn open(&mut self) -> io::Result<Ipv4Addr> {
        if let Some(input) = &mut self.helper.stdin {
            input.write_all(b"!")?;
        }
        let mut waited = Duration::ZERO;
        while waited < PATIENCE && self.helper.try_wait()?.is_none() {
            if let Some(gateway) = gateway()? {
                return Ok(gateway);
            }
            std::thread::sleep(LOOK);
            waited += LOOK;
        }
        Err(io::Error::other(format!("{TOOL} opened no way outside; --no-outside goes on without")))
    }
}

impl Drop for Outside {
    fn drop(&mut self) {
        drop(self.helper.stdin.take());
        let _ = self.helper.wait();
    }
}

/// Where packets for everywhere go on by the way's device, in this process's network (proc_net(5), `route`).
fn gateway() -> io::Result<Option<Ipv4Addr>> {
    let text = std::fs::read_to_string("/proc/self/net/route")?;
    Ok(text.lines().find_map(|line| default_by(line, DEVICE)))
}

/// The gateway of a line of the table, if that is the default route by `device`.
fn default_by(line: &str, device: &str) -> Option<Ipv4Addr> {
    let mut fields = line.split_ascii_whitespace();
    let is_meant = fields.next() == Some(device) && fields.next() == Some("00000000");
    let gateway = fields.next().filter(|_| is_meant)?;
    // As the kernel keeps it: in the order of the network.
    let gateway = u32::from_str_radix(gateway, 16).ok().filter(|number| *number != 0)?;
    Some(Ipv4Addr::from(gateway.to_ne_bytes()))
}

/// The helper: waits for the word, then leads from the network of `process` until its standard input ends.
///
/// # Errors
/// What leads outside cannot be started.
pub fn lead(process: &str) -> io::Result<u8> {
    if io::stdin().read(&mut [0])? == 0 {
        return Ok(0);
    }
    let mut command = emu::namespace::tool(TOOL);
    command.args(["--configure", "--mtu=65520", "--enable-ipv6", "--exit-fd=0", process, DEVICE]);
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
        ];
        assert!(lines.iter().all(|line| default_by(line, DEVICE).is_none()));
        let number = u32::from_ne_bytes([10, 0, 2, 2]);
        let line = format!("outside\t00000000\t{number:08X}\t0003\t0\t0\t0\t00000000");
        assert_eq!(default_by(&line, DEVICE), Some(Ipv4Addr::new(10, 0, 2, 2)));
    }
}
