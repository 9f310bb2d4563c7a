//! What goes on while a session runs: a line in the terminal's title, its socket.

use std::io::{self, IsTerminal};

use emu::{Lab, Progress, Running};
use endpoint::{put, say};
use units::{Span, Time};

use super::control::Control;
use super::plan::Plan;

/// How often the terminal is told.
const TELL: Span = Span(500_000_000);
/// How often a line is written where there is no terminal.
const WRITE: Span = Span(1_000_000_000);

/// Tells the terminal how a path is doing, and answers whoever comes to the socket.
#[derive(Debug)]
pub struct Watch {
    screen: Option<Screen>,
    control: Option<Control>,
}

impl Watch {
    /// As the plan asks.
    ///
    /// # Errors
    /// The socket cannot be made.
    pub fn start(plan: &Plan) -> io::Result<Watch> {
        let control = plan.control.as_deref().map(Control::open);
        Ok(Watch { screen: plan.watch.then(Screen::start), control: control.transpose()? })
    }

    /// Does what is due.
    pub fn look(&mut self, lab: &Lab, running: &Running) {
        if let Some(screen) = &mut self.screen {
            screen.look(lab, running);
        }
        if let Some(control) = &mut self.control {
            control.look(lab, running);
        }
    }
}

/// The terminal's title, which no output of a command touches; lines where there is no terminal.
#[derive(Debug)]
struct Screen {
    terminal: bool,
    next: Time,
    before: Vec<[Progress; 2]>,
}

impl Screen {
    fn start() -> Screen {
        let terminal = io::stderr().is_terminal();
        if terminal {
            // Keeps the title (XTWINOPS 22) for the end.
            put("\x1b[22;0t");
        }
        Screen { terminal, next: Time::ZERO + TELL, before: Vec::new() }
    }

    fn look(&mut self, lab: &Lab, running: &Running) {
        let now = running.clock.now();
        if now < self.next {
            return;
        }
        self.next = now + if self.terminal { TELL } else { WRITE };
        let progress = running.read();
        let words: Vec<String> = lab
            .segments
            .iter()
            .enumerate()
            .map(|(index, segment)| {
                let ways = [0, 1].map(|way| {
                    let before = self.before.get(index).map(|ways| &ways[way]);
                    words(&progress[index][way], before)
                });
                format!("{segment}: up {}; down {}", ways[0], ways[1])
            })
            .collect();
        self.before = progress;
        let line = words.join(" | ");
        if self.terminal {
            put(format_args!("\x1b]2;{line}\x07"));
        } else {
            say(format_args!("bentpipe: {line}"));
        }
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        if self.terminal {
            put("\x1b[23;0t");
        }
    }
}

fn words(way: &Progress, before: Option<&Progress>) -> String {
    let (bytes, at) = before.map_or((0, Time::ZERO), |before| (before.bytes_out, before.at));
    let seconds = way.at.since(at).millis() / 1e3;
    let rate = if seconds > 0.0 { (way.bytes_out - bytes) as f64 * 8e-6 / seconds } else { 0.0 };
    let dropped: u64 = way.dropped.iter().sum();
    format!("{rate:.2} Mbit/s, queue {:.0} kB, dropped {dropped}", way.queued.1 as f64 / 1e3)
}
