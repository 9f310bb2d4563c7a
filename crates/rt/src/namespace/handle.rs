//! Namespaces and the commands in them.

use std::fs::File;
use std::io::{self, BufRead, BufReader, PipeWriter};
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use emu::namespace;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use super::supervisor::{READY, start_error};
use crate::lab::plan::ProcessPlan;
use crate::uplink::listeners::SocketTables;

/// Interval between two checks of a supervisor that must end.
const STOP_POLL_INTERVAL: Duration = Duration::from_millis(2);

/// Number of checks before it is killed: 3 s.
const STOP_POLLS: u32 = 1_500;

/// A network namespace: a new one with a supervisor, or that of the caller.
pub struct Namespace {
    supervisor: Option<Child>,
    /// The network namespace.
    pub network: File,
}

impl Namespace {
    /// Creates a namespace with separate processes and mounts. `lifetime` stays open until its last process has ended.
    ///
    /// # Errors
    /// Returns the error of the kernel, as reported by the supervisor.
    pub fn create(lifetime: &PipeWriter) -> io::Result<Namespace> {
        let mut supervisor = Command::new("/proc/self/exe")
            .args(["keep", &std::process::id().to_string()])
            .stdin(Stdio::from(lifetime.try_clone()?))
            .stdout(Stdio::piped())
            .process_group(0)
            .spawn()?;
        let mut line = String::new();
        if let Some(output) = supervisor.stdout.take() {
            BufReader::new(output).read_line(&mut line)?;
        }
        if line.trim_end() != READY {
            let status = supervisor.wait()?;
            return Err(start_error(status, "cannot create a namespace"));
        }
        let network = namespace::open_process_network(supervisor.id())?;
        Ok(Namespace { supervisor: Some(supervisor), network })
    }

    /// Returns the namespace of the caller.
    ///
    /// # Errors
    /// Returns the error of the kernel.
    pub fn current() -> io::Result<Namespace> {
        Ok(Namespace {
            supervisor: None,
            network: namespace::open_process_network(std::process::id())?,
        })
    }

    /// Returns whether the supervisor, and thereby all processes inside, has ended.
    pub fn has_ended(&mut self) -> bool {
        self.supervisor
            .as_mut()
            .is_some_and(|supervisor| supervisor.try_wait().is_ok_and(|end| end.is_some()))
    }

    /// Returns a command that runs in the namespace.
    pub fn command(&self, words: &[String]) -> Command {
        let Some(supervisor) = &self.supervisor else {
            let mut command = Command::new(&words[0]);
            command.args(&words[1..]);
            return command;
        };
        let directory = std::env::current_dir().unwrap_or_else(|_| "/".into());
        let mut command = Command::new("/proc/self/exe");
        command
            .args(["enter", &std::process::id().to_string(), &supervisor.id().to_string()])
            .arg(directory)
            .arg("--")
            .args(words);
        command
    }

    /// Starts a process in the namespace, with the additional variables `environment` and the output files of its plan.
    /// A service gets a separate process group, because Ctrl-C is for the near commands.
    ///
    /// # Errors
    /// Returns an error if a file cannot be created.
    pub fn spawn(
        &self,
        process: &ProcessPlan,
        words: &[String],
        environment: &[(&str, String)],
        service: bool,
    ) -> io::Result<Child> {
        let file = |name: &Option<String>| -> io::Result<Stdio> {
            let Some(name) = name else { return Ok(Stdio::inherit()) };
            let file =
                File::create(name).map_err(|error| io::Error::other(format!("{name}: {error}")))?;
            Ok(file.into())
        };
        let uses_terminal = process.output.is_none() && !service;
        let input = if uses_terminal { Stdio::inherit() } else { Stdio::null() };
        let mut command = self.command(words);
        if service {
            command.process_group(0);
        }
        command.envs(environment.iter().map(|(name, value)| (name, value)));
        command.stdin(input).stdout(file(&process.output)?).stderr(file(&process.errors)?).spawn()
    }

    /// Opens the socket tables of the namespace.
    ///
    /// # Errors
    /// Returns the errors of [`SocketTables::open`].
    pub fn open_socket_tables(&self) -> io::Result<SocketTables> {
        let process = self.supervisor.as_ref().map(|supervisor| supervisor.id().to_string());
        SocketTables::open(process.as_deref().unwrap_or("self"))
    }

    /// Returns whether a process in the namespace listens on `port` of TCP or UDP.
    pub fn has_listener(&self, port: u16) -> bool {
        let process = self.supervisor.as_ref().map_or_else(std::process::id, Child::id);
        ["tcp", "tcp6", "udp", "udp6"].iter().any(|table| {
            std::fs::read_to_string(format!("/proc/{process}/net/{table}"))
                .is_ok_and(|text| text.lines().any(|line| is_listening(line, port)))
        })
    }

    /// Runs these `ip` commands in the namespace.
    ///
    /// # Errors
    /// Returns the error message of `ip`.
    pub fn run_ip(&self, lines: &str) -> io::Result<()> {
        namespace::run_in(&self.network, || namespace::run_ip_batch(lines))
    }

    /// Writes a kernel setting in the namespace.
    ///
    /// # Errors
    /// Returns an error if the setting does not exist or the kernel rejects the value.
    pub fn set_sysctl(&self, name: &str, value: &str) -> io::Result<()> {
        let file = format!("/proc/sys/{}", name.replace('.', "/"));
        namespace::run_in(&self.network, || {
            std::fs::write(&file, value)
                .map_err(|error| io::Error::other(format!("{name} = {value}: {error}")))
        })
    }

    /// Returns the number of packets that a device in the namespace dropped because its queue was full.
    pub fn overrun_packets(&self, device: &str) -> u64 {
        let process = self.supervisor.as_ref().map_or_else(std::process::id, Child::id);
        let text = std::fs::read_to_string(format!("/proc/{process}/net/dev")).unwrap_or_default();
        let row = text.lines().find_map(|line| line.trim().strip_prefix(&format!("{device}:")));
        // receive: bytes packets errs drop fifo frame compressed multicast; transmit: bytes packets errs drop
        row.and_then(|row| row.split_ascii_whitespace().nth(11)?.parse().ok()).unwrap_or(0)
    }
}

impl Drop for Namespace {
    fn drop(&mut self) {
        let Some(supervisor) = &mut self.supervisor else { return };
        // The supervisor kills PID 1, with which all processes inside end. It may have ended already.
        for _ in 0..STOP_POLLS {
            if !matches!(supervisor.try_wait(), Ok(None)) {
                return;
            }
            let _ = kill(Pid::from_raw(supervisor.id() as i32), Signal::SIGTERM);
            std::thread::sleep(STOP_POLL_INTERVAL);
        }
        let _ = supervisor.kill();
        let _ = supervisor.wait();
    }
}

/// Returns whether a line of `/proc/net/{tcp,udp}` is a socket that listens on `port`: hexadecimal local address
/// `ADDRESS:PORT`, no peer.
fn is_listening(line: &str, port: u16) -> bool {
    let mut fields = line.split_ascii_whitespace().skip(1);
    let (local, peer) = (fields.next().unwrap_or(""), fields.next().unwrap_or(""));
    local.ends_with(&format!(":{port:04X}")) && peer.ends_with(":0000")
}

#[cfg(test)]
mod tests {
    use super::is_listening;

    #[test]
    fn a_connected_socket_does_not_listen() {
        let listening = "   1: 0100007F:1151 00000000:0000 0A 00000000:00000000 00:00000000";
        let connected = "   2: 0100007F:1151 0100007F:9C40 01 00000000:00000000 00:00000000";
        assert!(is_listening(listening, 4433));
        assert!(!is_listening(listening, 443));
        assert!(!is_listening(connected, 4433));
        assert!(!is_listening("  sl  local_address rem_address   st", 4433));
    }
}
