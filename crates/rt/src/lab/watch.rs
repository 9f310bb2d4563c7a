//! What goes on while a session runs: a line in the terminal's title, live changes.

use std::io::{self, BufRead, BufReader, IsTerminal, Read, Write};
use std::os::unix::net::{UnixListener, UnixStream};
use std::time::Duration;

use emu::{Lab, Progress, Running};
use endpoint::{put, say};
use path::Change;
use serde::Deserialize;
use units::{Rate, Span, Time};

use super::plan::Plan;

/// How often the terminal is told.
const TELL: Span = Span(500_000_000);
/// How often a line is written where there is no terminal.
const WRITE: Span = Span(1_000_000_000);
/// Longest wait for the words of a change.
const PATIENCE: Duration = Duration::from_millis(200);
/// Longest words of a change.
const WORDS: u64 = 4096;

/// Tells the terminal how a path is doing, and takes live changes.
#[derive(Debug)]
pub struct Watch {
    screen: Option<Screen>,
    control: Option<UnixListener>,
}

impl Watch {
    /// As the plan asks.
    ///
    /// # Errors
    /// The socket cannot be made.
    pub fn start(plan: &Plan) -> io::Result<Watch> {
        let control = plan.control.as_ref().map(|place| {
            let told = |error| io::Error::other(format!("control {place}: {error}"));
            let listener = UnixListener::bind(place).map_err(told)?;
            listener.set_nonblocking(true)?;
            Ok::<_, io::Error>(listener)
        });
        Ok(Watch { screen: plan.watch.then(Screen::start), control: control.transpose()? })
    }

    /// Does what is due.
    pub fn look(&mut self, lab: &Lab, running: &Running) {
        if let Some(screen) = &mut self.screen {
            screen.look(lab, running);
        }
        if let Some(control) = &self.control
            && let Ok((stream, _)) = control.accept()
        {
            // Who asked and does not listen to the answer misses it.
            let _ = answer(&stream, lab, running);
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

/// A live change, in words.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Wish {
    /// A segment of the scenario; none: the only one.
    segment: Option<String>,
    /// `up` or `down`; none: both.
    direction: Option<String>,
    rate_bit_s: Option<u64>,
    delay_ns: Option<u64>,
    loss: Option<f64>,
}

fn answer(stream: &UnixStream, lab: &Lab, running: &Running) -> io::Result<()> {
    stream.set_nonblocking(false)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    let mut line = String::new();
    BufReader::new(stream.take(WORDS)).read_line(&mut line)?;
    let said = match grant(&line, lab, running) {
        Ok(()) => serde_json::json!({"done": true}),
        Err(error) => serde_json::json!({"error": error.to_string()}),
    };
    let mut stream = stream;
    writeln!(stream, "{said}")
}

fn grant(line: &str, lab: &Lab, running: &Running) -> io::Result<()> {
    let wrong = |what: &str| Err(io::Error::other(what));
    let wish: Wish = serde_json::from_str(line)?;
    let change = match (wish.rate_bit_s, wish.delay_ns, wish.loss) {
        (Some(rate), None, None) if rate > 0 => Change::Rate(Rate(rate)),
        (None, Some(delay), None) => Change::Delay(Span(delay)),
        (None, None, Some(loss)) if (0.0..=1.0).contains(&loss) => Change::Loss(loss),
        _ => return wrong("expected one of rate_bit_s above 0, delay_ns, loss between 0 and 1"),
    };
    let ways: &[&str] = match wish.direction.as_deref() {
        None => &["up", "down"],
        Some("up") => &["up"],
        Some("down") => &["down"],
        Some(_) => return wrong("direction: expected \"up\" or \"down\""),
    };
    let segment = match (wish.segment, &lab.segments[..]) {
        (Some(segment), _) => segment,
        (None, [only]) => only.clone(),
        (None, several) => {
            let names = several.join(", ");
            return wrong(&format!("found no SEGMENT before the key, expected one of: {names}"));
        }
    };
    let lines: Vec<String> = ways.iter().map(|way| format!("{segment}.{way}")).collect();
    // Nothing half done: both are there before either changes.
    lines.iter().try_for_each(|line| lab.can_change(line, change))?;
    lines.iter().try_for_each(|line| lab.change(running, line, change))
}
