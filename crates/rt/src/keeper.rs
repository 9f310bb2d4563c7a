//! The processes that hold a namespace: the keeper makes it, process 1 inside runs the command.

use std::io;
use std::os::unix::process::ExitStatusExt;
use std::process::{Command, ExitStatus};
use std::time::Duration;

use emu::namespace;
use nix::mount::{MsFlags, mount};
use nix::sched::{CloneFlags, unshare};
use nix::sys::signal::Signal;
use nix::sys::wait::{WaitPidFlag, WaitStatus, waitpid};
use nix::unistd::Pid;

/// Pause between two looks at something that another process is about to do.
pub const LOOK: Duration = Duration::from_millis(1);

/// Where systemd-resolved keeps the servers behind its own stub, which a namespace cannot reach.
const RESOLVED: &str = "/run/systemd/resolve/resolv.conf";

/// Exit status as a shell gives it: 128 and the signal's number for a command that a signal ended.
pub fn code(status: ExitStatus) -> u8 {
    let code = status.code().or_else(|| status.signal().map(|signal| 128 + signal));
    code.map_or(1, |code| code as u8)
}

/// Makes the namespaces, waits for the way out and runs `command` inside.
///
/// # Errors
/// The kernel's.
pub fn keep(parent: &str, command: &[&str]) -> io::Result<u8> {
    namespace::die_with(parent.parse().map_err(io::Error::other)?)?;
    unshare(CloneFlags::CLONE_NEWNET | CloneFlags::CLONE_NEWNS | CloneFlags::CLONE_NEWPID)?;
    // The default route is the last thing that the parent sets up.
    while !has_default_route(&std::fs::read_to_string("/proc/self/net/route")?) {
        std::thread::sleep(LOOK);
    }
    let status = Command::new("/proc/self/exe").args(["init", "--"]).args(command).status()?;
    Ok(code(status))
}

/// Whether a routing table as in `/proc/net/route` has a default route: destination and mask are 0.
fn has_default_route(table: &str) -> bool {
    table.lines().skip(1).any(|line| {
        let fields: Vec<&str> = line.split_ascii_whitespace().collect();
        fields.get(1) == Some(&"00000000") && fields.get(7) == Some(&"00000000")
    })
}

/// Process 1 of the namespace: runs `command`, takes in orphans, and ends with the command. The
/// kernel then ends whatever the command has left behind.
///
/// # Errors
/// The kernel's; the command is not there.
pub fn init(command: &[&str]) -> io::Result<u8> {
    nix::sys::prctl::set_pdeathsig(Signal::SIGKILL)?;
    let none: Option<&str> = None;
    mount(none, "/", none, MsFlags::MS_REC | MsFlags::MS_PRIVATE, none)?;
    mount(Some("proc"), "/proc", Some("proc"), MsFlags::empty(), none)?;
    let stub =
        std::fs::read_to_string("/etc/resolv.conf").is_ok_and(|text| text.contains("127.0.0.53"));
    if stub && std::fs::exists(RESOLVED)? {
        mount(Some(RESOLVED), "/etc/resolv.conf", none, MsFlags::MS_BIND, none)?;
    }
    let child = Command::new(command[0])
        .args(&command[1..])
        .spawn()
        .map_err(|error| io::Error::other(format!("{}: {error}", command[0])))?;
    let own = Pid::from_raw(child.id() as i32);
    loop {
        match waitpid(None::<Pid>, Some(WaitPidFlag::empty())) {
            Ok(WaitStatus::Exited(process, code)) if process == own => return Ok(code as u8),
            Ok(WaitStatus::Signaled(process, signal, _)) if process == own => {
                return Ok(128 + signal as i32 as u8);
            }
            Ok(_) | Err(nix::errno::Errno::EINTR) => {}
            Err(error) => return Err(error.into()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::has_default_route;

    #[test]
    fn a_route_to_the_peer_is_no_default_route() {
        let head =
            "Iface\tDestination\tGateway\tFlags\tRefCnt\tUse\tMetric\tMask\tMTU\tWindow\tIRTT\n";
        let peer = "bp0\t0100004E0A\t00000000\t0001\t0\t0\t0\tFFFFFFFF\t0\t0\t0\n";
        let default = "bp0\t00000000\t00000000\t0001\t0\t0\t0\t00000000\t0\t0\t0\n";
        assert!(!has_default_route(head));
        assert!(!has_default_route(&format!("{head}{peer}")));
        assert!(has_default_route(&format!("{head}{peer}{default}")));
    }
}
