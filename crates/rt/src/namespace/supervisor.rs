//! The processes of a namespace. The *supervisor* creates the namespace, *init* is PID 1 inside, *enter* runs a command
//! in it. Each sets a parent-death signal, and the kernel ends all processes inside with PID 1. The supervisor ends
//! last: it waits for init.

use std::io::{self, Write};
use std::os::fd::AsFd;
use std::os::unix::process::ExitStatusExt;
use std::process::{Command, ExitStatus, Stdio};

use emu::namespace;
use nix::mount::{MsFlags, mount};
use nix::poll::PollTimeout;
use nix::sched::{CloneFlags, setns, unshare};
use nix::sys::signal::{Signal, kill};
use nix::sys::wait::{WaitPidFlag, WaitStatus, waitpid};
use nix::unistd::Pid;
use runtime::{Stdout, log_stderr};
use signal_hook::consts::{SIGCHLD, SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::Signals;

use crate::parent_process::has_ended;

/// The name servers behind the stub of systemd-resolved. A namespace cannot reach the stub.
const SYSTEMD_RESOLV_CONF: &str = "/run/systemd/resolve/resolv.conf";

/// Exit statuses of shells for a missing command, and for a command that cannot be executed.
const EXIT_NOT_FOUND: u8 = 127;
const EXIT_NOT_EXECUTABLE: u8 = 126;

/// The output of init when the namespace is ready.
pub const READY: &str = "ready";

/// Returns the exit status in the convention of shells: 128 plus the signal number after a signal.
pub fn exit_code(status: ExitStatus) -> u8 {
    let code = status.code().or_else(|| status.signal().map(|signal| 128 + signal));
    code.map_or(1, |code| code as u8)
}

/// The error of a child process that has already reported its message.
#[derive(Debug)]
pub struct AlreadyReported;

impl std::fmt::Display for AlreadyReported {
    fn fmt(&self, to: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        to.write_str("see the message above")
    }
}

impl std::error::Error for AlreadyReported {}

/// Returns the error of a child process that failed to start. Status 2 means that the child has reported its error.
pub fn start_error(status: ExitStatus, what: &str) -> io::Error {
    if status.code() == Some(2) {
        return io::Error::other(AlreadyReported);
    }
    io::Error::other(format!("{what} ({status})"))
}

/// Creates the namespaces and holds them until SIGTERM or the end of its parent. All processes inside end before it
/// does. A process that waits for this end holds the other end of its standard input.
///
/// # Errors
/// Returns the error of the kernel.
pub fn hold_namespace(parent: &str) -> io::Result<u8> {
    let mut signals = Signals::new([SIGTERM, SIGCHLD])?;
    namespace::set_parent_death_signal(parent.parse().map_err(io::Error::other)?, Signal::SIGTERM)?;
    unshare(CloneFlags::CLONE_NEWNET | CloneFlags::CLONE_NEWNS | CloneFlags::CLONE_NEWPID)?;
    let mut init = Command::new("/proc/self/exe").arg("init").stdin(Stdio::piped()).spawn()?;
    for signal in signals.forever() {
        if let Some(status) = init.try_wait()? {
            return Ok(exit_code(status));
        }
        if signal == SIGTERM {
            init.kill()?;
        }
    }
    Ok(exit_code(init.wait()?))
}

/// Runs PID 1 of the namespace: reaps orphans until it is killed.
///
/// # Errors
/// Returns the error of the kernel.
pub fn run_init() -> io::Result<u8> {
    nix::sys::prctl::set_pdeathsig(Signal::SIGKILL)?;
    // The pipe shows whether the supervisor ended before that. It has no PID in this namespace.
    if has_ended(&io::stdin(), PollTimeout::ZERO) {
        return Ok(0);
    }
    let mut children = Signals::new([SIGCHLD])?;
    let none: Option<&str> = None;
    mount(none, "/", none, MsFlags::MS_REC | MsFlags::MS_PRIVATE, none)?;
    mount(Some("proc"), "/proc", Some("proc"), MsFlags::empty(), none)?;
    let stub =
        std::fs::read_to_string("/etc/resolv.conf").is_ok_and(|text| text.contains("127.0.0.53"));
    if stub && std::fs::exists(SYSTEMD_RESOLV_CONF)? {
        mount(Some(SYSTEMD_RESOLV_CONF), "/etc/resolv.conf", none, MsFlags::MS_BIND, none)?;
    }
    namespace::run_ip_batch(namespace::LOOPBACK_UP)?;
    let mut screen = Stdout::open()?;
    writeln!(screen, "{READY}")?;
    for _ in children.forever() {
        while let Ok(status) = waitpid(None::<Pid>, Some(WaitPidFlag::WNOHANG)) {
            if status == WaitStatus::StillAlive {
                break;
            }
        }
    }
    Ok(0)
}

/// Runs `command` in the namespaces of `supervisor` and returns its exit status.
///
/// # Errors
/// Returns the error of the kernel.
pub fn enter_namespace(
    parent: &str,
    supervisor: &str,
    directory: &str,
    command: &[&str],
) -> io::Result<u8> {
    namespace::set_parent_death_signal(parent.parse().map_err(io::Error::other)?, Signal::SIGKILL)?;
    signal_hook::flag::register(SIGINT, Default::default())?;
    let mut signals = Signals::new([SIGTERM, SIGHUP, SIGCHLD])?;
    let open = |kind: &str| std::fs::File::open(format!("/proc/{supervisor}/ns/{kind}"));
    let (net, pid, mnt) = (open("net")?, open("pid_for_children")?, open("mnt")?);
    setns(net.as_fd(), CloneFlags::CLONE_NEWNET)?;
    setns(pid.as_fd(), CloneFlags::CLONE_NEWPID)?;
    setns(mnt.as_fd(), CloneFlags::CLONE_NEWNS)?;
    // The new mount namespace starts in its root directory.
    std::env::set_current_dir(directory)?;
    let mut child = match Command::new(command[0]).args(&command[1..]).spawn() {
        Ok(child) => child,
        Err(error) => {
            log_stderr(format_args!("bentpipe: {}: {error}", command[0]));
            let missing = error.kind() == io::ErrorKind::NotFound;
            return Ok(if missing { EXIT_NOT_FOUND } else { EXIT_NOT_EXECUTABLE });
        }
    };
    for signal in signals.forever() {
        if let Some(status) = child.try_wait()? {
            return Ok(exit_code(status));
        }
        if signal != SIGCHLD {
            let signal = Signal::try_from(signal)?;
            kill(Pid::from_raw(child.id() as i32), signal)?;
        }
    }
    Ok(exit_code(child.wait()?))
}
