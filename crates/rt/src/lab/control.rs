//! The socket of a session: what is asked of its path, and changed of it, while it runs.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::os::unix::net::{UnixListener, UnixStream};
use std::time::Duration;

use emu::{ByHand, Lab, Running};
use path::{Cause, Change};
use serde::Deserialize;
use serde_json::{Map, Value, json};
use units::{Rate, Span};

/// Longest wait for words, and for whoever reads the answer.
const PATIENCE: Duration = Duration::from_millis(200);
/// Longest words.
const WORDS: u64 = 4096;

/// Listens, and knows what was changed.
#[derive(Debug)]
pub struct Control {
    listener: UnixListener,
    by_hand: Vec<(String, ByHand)>,
}

/// What is asked or wished.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Words {
    /// Something to be told; then nothing changes.
    ask: Option<Ask>,
    /// A segment of the scenario; none: the only one.
    segment: Option<String>,
    /// `up` or `down`; none: both.
    direction: Option<String>,
    rate_bit_s: Option<u64>,
    delay_ns: Option<u64>,
    loss: Option<f64>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Ask {
    /// The lines as they are.
    Path,
    /// The same, and the counters of every segment.
    Counters,
}

impl Control {
    /// Makes the socket at `place`.
    ///
    /// # Errors
    /// It cannot be made.
    pub fn open(place: &str) -> io::Result<Control> {
        let told = |error| io::Error::other(format!("control {place}: {error}"));
        let listener = UnixListener::bind(place).map_err(told)?;
        listener.set_nonblocking(true)?;
        Ok(Control { listener, by_hand: Vec::new() })
    }

    /// Answers one who has come, if there is one.
    pub fn look(&mut self, lab: &Lab, running: &Running) {
        if let Ok((stream, _)) = self.listener.accept() {
            // Who asked and does not listen to the answer misses it.
            let _ = self.answer(&stream, lab, running);
        }
    }

    fn answer(&mut self, stream: &UnixStream, lab: &Lab, running: &Running) -> io::Result<()> {
        stream.set_nonblocking(false)?;
        stream.set_read_timeout(Some(PATIENCE))?;
        stream.set_write_timeout(Some(PATIENCE))?;
        let mut line = String::new();
        BufReader::new(stream.take(WORDS)).read_line(&mut line)?;
        let said = match self.hear(&line, lab, running) {
            Ok(said) => said,
            Err(error) => json!({"error": error.to_string()}),
        };
        let mut stream = stream;
        writeln!(stream, "{said}")
    }

    fn hear(&mut self, line: &str, lab: &Lab, running: &Running) -> io::Result<Value> {
        let words: Words = serde_json::from_str(line)?;
        match words.ask {
            None => {
                self.grant(words, lab, running)?;
                Ok(json!({"done": true}))
            }
            Some(Ask::Path) => Ok(self.tell(lab, running, None)),
            Some(Ask::Counters) => Ok(self.tell(lab, running, Some(counters(lab, running)))),
        }
    }

    /// The path as it is now.
    fn tell(&self, lab: &Lab, running: &Running, segments: Option<Value>) -> Value {
        let now = running.clock.now();
        json!({"done": true, "time_ns": now.0, "lines": lab.present(&self.by_hand, now), "segments": segments})
    }

    fn grant(&mut self, wish: Words, lab: &Lab, running: &Running) -> io::Result<()> {
        let wrong = |what: &str| Err(io::Error::other(what));
        let change = match (wish.rate_bit_s, wish.delay_ns, wish.loss) {
            (Some(rate), None, None) if rate > 0 => Change::Rate(Rate(rate)),
            (None, Some(delay), None) => Change::Delay(Span(delay)),
            (None, None, Some(loss)) if (0.0..=1.0).contains(&loss) => Change::Loss(loss),
            _ => {
                return wrong("expected one of rate_bit_s above 0, delay_ns, loss between 0 and 1");
            }
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
                return wrong(&format!(
                    "found no SEGMENT before the key, expected one of: {names}"
                ));
            }
        };
        let lines: Vec<String> = ways.iter().map(|way| format!("{segment}.{way}")).collect();
        // Nothing half done: both are there before either changes.
        lines.iter().try_for_each(|line| lab.can_change(line, change))?;
        lines.iter().try_for_each(|line| lab.change(running, line, change))?;
        let at = running.clock.now();
        self.by_hand.extend(lines.into_iter().map(|line| (line, ByHand { at, change })));
        Ok(())
    }
}

/// What every segment has done so far, by the names of a result.
fn counters(lab: &Lab, running: &Running) -> Value {
    let segments = lab.segments.iter().zip(running.read()).map(|(name, progress)| {
        let [up, down] = progress.map(|way| {
            let dropped: Map<String, Value> =
                Cause::ALL.iter().zip(way.dropped).map(|(cause, n)| (cause.name().to_owned(), json!(n))).collect();
            json!({
                "time_ns": way.at.0, "packets_in": way.packets_in, "packets_out": way.packets_out,
                "bytes_out": way.bytes_out, "queued_packets": way.queued.0, "queued_bytes": way.queued.1,
                "dropped": dropped,
            })
        });
        json!({"name": name, "up": up, "down": down})
    });
    segments.collect()
}
