//! The processes that hold a namespace and run commands in it. The *keeper* makes it, *init* is process 1
//! inside, *enter* brings a command in. Each asks the kernel to be ended when its parent dies, and with
//! process 1 the kernel ends everything inside. The keeper is the last: it waits for that.

use std::io::{self, Write};
use std::os::fd::AsFd;
use std::os::unix::process::ExitStatusExt;
use std::process::{Command, ExitStatus, Stdio};

use emu::namespace;
use endpoint::{Screen, say};
use nix::mount::{MsFlags, mount};
use nix::poll::PollTimeout;
use nix::sched::{CloneFlags, setns, unshare};
use nix::sys::signal::{Signal, kill};
use nix::sys::wait::{WaitPidFlag, WaitStatus, waitpid};
use nix::unistd::Pid;
use signal_hook::consts::{SIGCHLD, SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::Signals;

use crate::starter::ended as over;

/// Where systemd-resolved keeps the servers behind its own stub, which a namespace cannot reach.
const RESOLVED: &str = "/run/systemd/resolve/resolv.conf";

/// Exit statuses of shells for a command that is not there, and for one that cannot be run.
const NOT_FOUND: u8 = 127;
const NOT_RUN: u8 = 126;

/// What init says once the namespace is ready.
pub const READY: &str = "ready";

/// Exit status as a shell gives it: 128 and the signal's number for a command that a signal ended.
pub fn code(status: ExitStatus) -> u8 {
    let code = status.code().or_else(|| status.signal().map(|signal| 128 + signal));
    code.map_or(1, |code| code as u8)
}

/// A process of ours has said why it could not begin: there is nothing to add.
#[derive(Debug)]
pub struct Said;

impl std::fmt::Display for Said {
    fn fmt(&self, to: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        to.write_str("as said above")
    }
}

impl std::error::Error for Said {}

/// Why a process of ours is not there: with status 2 it has said so itself.
pub fn ended(status: ExitStatus, what: &str) -> io::Error {
    if status.code() == Some(2) {
        return io::Error::other(Said);
    }
    io::Error::other(format!("{what} ({status})"))
}

/// Makes the namespaces and holds them until SIGTERM, or until its parent dies. When it has ended, nothing inside is
/// left; whoever has to know holds the other end of its standard input.
///
/// # Errors
/// The kernel's.
pub fn keep(parent: &str) -> io::Result<u8> {
    let mut signals = Signals::new([SIGTERM, SIGCHLD])?;
    namespace::end_with(parent.parse().map_err(io::Error::other)?, Signal::SIGTERM)?;
    unshare(CloneFlags::CLONE_NEWNET | CloneFlags::CLONE_NEWNS | CloneFlags::CLONE_NEWPID)?;
    let mut init = Command::new("/proc/self/exe").arg("init").stdin(Stdio::piped()).spawn()?;
    for signal in signals.forever() {
        if let Some(status) = init.try_wait()? {
            return Ok(code(status));
        }
        if signal == SIGTERM {
            init.kill()?;
        }
    }
    Ok(code(init.wait()?))
}

/// Process 1 of the namespace: takes in orphans until it is killed.
///
/// # Errors
/// The kernel's.
pub fn init() -> io::Result<u8> {
    nix::sys::prctl::set_pdeathsig(Signal::SIGKILL)?;
    // A keeper that ended before that is seen by its pipe: it has no number in here.
    if over(&io::stdin(), PollTimeout::ZERO) {
        return Ok(0);
    }
    let mut children = Signals::new([SIGCHLD])?;
    let none: Option<&str> = None;
    mount(none, "/", none, MsFlags::MS_REC | MsFlags::MS_PRIVATE, none)?;
    mount(Some("proc"), "/proc", Some("proc"), MsFlags::empty(), none)?;
    let stub =
        std::fs::read_to_string("/etc/resolv.conf").is_ok_and(|text| text.contains("127.0.0.53"));
    if stub && std::fs::exists(RESOLVED)? {
        mount(Some(RESOLVED), "/etc/resolv.conf", none, MsFlags::MS_BIND, none)?;
    }
    namespace::ip_lines(namespace::LOOPBACK)?;
    let mut screen = Screen::open()?;
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

/// Runs `command` in the namespaces that `keeper` holds; returns its exit status.
///
/// # Errors
/// The kernel's; the command is not there.
pub fn enter(parent: &str, keeper: &str, directory: &str, words: &[&str]) -> io::Result<u8> {
    namespace::end_with(parent.parse().map_err(io::Error::other)?, Signal::SIGKILL)?;
    signal_hook::flag::register(SIGINT, Default::default())?;
    let mut signals = Signals::new([SIGTERM, SIGHUP, SIGCHLD])?;
    let open = |kind: &str| std::fs::File::open(format!("/proc/{keeper}/ns/{kind}"));
    let (net, pid, mnt) = (open("net")?, open("pid_for_children")?, open("mnt")?);
    setns(net.as_fd(), CloneFlags::CLONE_NEWNET)?;
    setns(pid.as_fd(), CloneFlags::CLONE_NEWPID)?;
    setns(mnt.as_fd(), CloneFlags::CLONE_NEWNS)?;
    // The other mount namespace begins at its root.
    std::env::set_current_dir(directory)?;
    let mut child = match Command::new(words[0]).args(&words[1..]).spawn() {
        Ok(child) => child,
        Err(error) => {
            say(format_args!("bentpipe: {}: {error}", words[0]));
            let missing = error.kind() == io::ErrorKind::NotFound;
            return Ok(if missing { NOT_FOUND } else { NOT_RUN });
        }
    };
    for signal in signals.forever() {
        if let Some(status) = child.try_wait()? {
            return Ok(code(status));
        }
        if signal != SIGCHLD {
            let signal = Signal::try_from(signal)?;
            kill(Pid::from_raw(child.id() as i32), signal)?;
        }
    }
    Ok(code(child.wait()?))
}
