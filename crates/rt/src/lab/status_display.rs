//! The status of a running session: a line in the title of the terminal, and the control socket.

use std::io::{self, IsTerminal};

use emu::{ForwarderStats, Lab, RunningLab};
use runtime::{log_stderr, write_stderr};
use units::{Span, Time};

use super::control_socket::ControlSocket;
use super::plan::LabPlan;

/// Update interval of the title.
const TITLE_INTERVAL: Span = Span(500_000_000);
/// Update interval of the lines without a terminal.
const LINE_INTERVAL: Span = Span(1_000_000_000);

/// Shows the status of a path, and serves the control socket.
#[derive(Debug)]
pub struct StatusDisplay {
    status_line: Option<StatusLine>,
    control_socket: Option<ControlSocket>,
}

impl StatusDisplay {
    /// Starts the display as planned.
    ///
    /// # Errors
    /// Returns an error if the socket cannot be created.
    pub fn start(plan: &LabPlan) -> io::Result<StatusDisplay> {
        let control_socket = plan.control.as_deref().map(ControlSocket::open);
        Ok(StatusDisplay {
            status_line: plan.has_status_display.then(StatusLine::start),
            control_socket: control_socket.transpose()?,
        })
    }

    /// Does all due work.
    pub fn poll(&mut self, lab: &Lab, running: &RunningLab) {
        if let Some(status_line) = &mut self.status_line {
            status_line.poll(lab, running);
        }
        if let Some(control_socket) = &mut self.control_socket {
            control_socket.poll(lab, running);
        }
    }
}

/// The title of the terminal, which the output of commands does not change; without a terminal, lines.
#[derive(Debug)]
struct StatusLine {
    is_terminal: bool,
    next_update: Time,
    previous: Vec<[ForwarderStats; 2]>,
}

impl StatusLine {
    fn start() -> StatusLine {
        let is_terminal = io::stderr().is_terminal();
        if is_terminal {
            // Saves the title (XTWINOPS 22), which the end restores.
            write_stderr("\x1b[22;0t");
        }
        StatusLine { is_terminal, next_update: Time::ZERO + TITLE_INTERVAL, previous: Vec::new() }
    }

    fn poll(&mut self, lab: &Lab, running: &RunningLab) {
        let now = running.clock.now();
        if now < self.next_update {
            return;
        }
        self.next_update = now + if self.is_terminal { TITLE_INTERVAL } else { LINE_INTERVAL };
        let stats = running.read_stats();
        let texts: Vec<String> = lab
            .link_names
            .iter()
            .enumerate()
            .map(|(index, link)| {
                let direction_texts = [0, 1].map(|direction| {
                    let previous =
                        self.previous.get(index).map(|link_stats| &link_stats[direction]);
                    direction_status(&stats[index][direction], previous)
                });
                format!("{link}: up {}; down {}", direction_texts[0], direction_texts[1])
            })
            .collect();
        self.previous = stats;
        let line = texts.join(" | ");
        if self.is_terminal {
            write_stderr(format_args!("\x1b]2;{line}\x07"));
        } else {
            log_stderr(format_args!("bentpipe: {line}"));
        }
    }
}

impl Drop for StatusLine {
    fn drop(&mut self) {
        if self.is_terminal {
            write_stderr("\x1b[23;0t");
        }
    }
}

fn direction_status(stats: &ForwarderStats, previous: Option<&ForwarderStats>) -> String {
    let (bytes, at) =
        previous.map_or((0, Time::ZERO), |before| (before.bytes_out, before.sampled_at));
    let seconds = stats.sampled_at.since(at).millis() / 1e3;
    let rate = if seconds > 0.0 { (stats.bytes_out - bytes) as f64 * 8e-6 / seconds } else { 0.0 };
    let dropped: u64 = stats.dropped.iter().sum();
    format!("{rate:.2} Mbit/s, queue {:.0} kB, dropped {dropped}", stats.queued.1 as f64 / 1e3)
}
