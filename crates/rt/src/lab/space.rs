//! Namespaces and the commands in them.

use std::fs::File;
use std::io::{self, BufRead, BufReader, PipeWriter};
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use emu::namespace;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use super::plan::Process;
use crate::keeper::{READY, ended};

/// Between two looks at a keeper that is to end.
const LOOK: Duration = Duration::from_millis(2);

/// Looks at it before it is killed: 3 s.
const FAREWELL: u32 = 1_500;

/// A network namespace: one of our own, held by a keeper, or the caller's.
pub struct Space {
    keeper: Option<Child>,
    /// The network.
    pub network: File,
}

impl Space {
    /// A new one, with its own processes and mounts; `life` is open until nothing of it is left.
    ///
    /// # Errors
    /// The kernel's, in the keeper's words.
    pub fn make(life: &PipeWriter) -> io::Result<Space> {
        let mut keeper = Command::new("/proc/self/exe")
            .args(["keep", &std::process::id().to_string()])
            .stdin(Stdio::from(life.try_clone()?))
            .stdout(Stdio::piped())
            .process_group(0)
            .spawn()?;
        let mut line = String::new();
        if let Some(output) = keeper.stdout.take() {
            BufReader::new(output).read_line(&mut line)?;
        }
        if line.trim_end() != READY {
            let status = keeper.wait()?;
            return Err(ended(status, "no namespace could be made"));
        }
        let network = namespace::of_process(keeper.id())?;
        Ok(Space { keeper: Some(keeper), network })
    }

    /// The caller's.
    ///
    /// # Errors
    /// The kernel's.
    pub fn own() -> io::Result<Space> {
        Ok(Space { keeper: None, network: namespace::of_process(std::process::id())? })
    }

    /// Whether its keeper has ended, and with it everything inside.
    pub fn is_gone(&mut self) -> bool {
        self.keeper.as_mut().is_some_and(|keeper| keeper.try_wait().is_ok_and(|end| end.is_some()))
    }

    /// A command inside.
    pub fn command(&self, words: &[String]) -> Command {
        let Some(keeper) = &self.keeper else {
            let mut command = Command::new(&words[0]);
            command.args(&words[1..]);
            return command;
        };
        let here = std::env::current_dir().unwrap_or_else(|_| "/".into());
        let mut command = Command::new("/proc/self/exe");
        command
            .args(["enter", &std::process::id().to_string(), &keeper.id().to_string()])
            .arg(here)
            .arg("--")
            .args(words);
        command
    }

    /// Starts a process inside, with `environment` beside ours and its output where its plan wants it; a service gets
    /// a process group of its own, so that Ctrl-C is the near commands'.
    ///
    /// # Errors
    /// A file cannot be written.
    pub fn start(
        &self,
        process: &Process,
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
        let terminal = process.output.is_none() && !service;
        let input = if terminal { Stdio::inherit() } else { Stdio::null() };
        let mut command = self.command(words);
        if service {
            command.process_group(0);
        }
        command.envs(environment.iter().map(|(name, value)| (name, value)));
        command.stdin(input).stdout(file(&process.output)?).stderr(file(&process.errors)?).spawn()
    }

    /// Whether something inside listens on `port`, of TCP or UDP.
    pub fn listens(&self, port: u16) -> bool {
        let process = self.keeper.as_ref().map_or_else(std::process::id, Child::id);
        ["tcp", "tcp6", "udp", "udp6"].iter().any(|table| {
            std::fs::read_to_string(format!("/proc/{process}/net/{table}"))
                .is_ok_and(|text| text.lines().any(|line| is_listening(line, port)))
        })
    }

    /// Tells `ip` these lines inside.
    ///
    /// # Errors
    /// Its words.
    pub fn ip(&self, lines: &str) -> io::Result<()> {
        namespace::within(&self.network, || namespace::ip_lines(lines))
    }

    /// Writes a kernel setting inside.
    ///
    /// # Errors
    /// There is no such setting, or the kernel refuses the value.
    pub fn set(&self, name: &str, value: &str) -> io::Result<()> {
        let place = format!("/proc/sys/{}", name.replace('.', "/"));
        namespace::within(&self.network, || {
            std::fs::write(&place, value)
                .map_err(|error| io::Error::other(format!("{name} = {value}: {error}")))
        })
    }

    /// Packets that a device inside did not take, because too many were waiting.
    pub fn overrun(&self, device: &str) -> u64 {
        let process = self.keeper.as_ref().map_or_else(std::process::id, Child::id);
        let text = std::fs::read_to_string(format!("/proc/{process}/net/dev")).unwrap_or_default();
        let row = text.lines().find_map(|line| line.trim().strip_prefix(&format!("{device}:")));
        // receive: bytes packets errs drop fifo frame compressed multicast; transmit: bytes packets errs drop
        row.and_then(|row| row.split_ascii_whitespace().nth(11)?.parse().ok()).unwrap_or(0)
    }
}

impl Drop for Space {
    fn drop(&mut self) {
        let Some(keeper) = &mut self.keeper else { return };
        // It ends process 1, with which the kernel ends everything inside; it may have ended before.
        for _ in 0..FAREWELL {
            if !matches!(keeper.try_wait(), Ok(None)) {
                return;
            }
            let _ = kill(Pid::from_raw(keeper.id() as i32), Signal::SIGTERM);
            std::thread::sleep(LOOK);
        }
        let _ = keeper.kill();
        let _ = keeper.wait();
    }
}

/// Whether a line of `/proc/net/{tcp,udp}` is a socket that waits on `port`: local address `ADDRESS:PORT` in
/// hexadecimal, no peer.
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
