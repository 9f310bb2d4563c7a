//! The control socket of a session: queries and live changes of its path.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::os::unix::net::{UnixListener, UnixStream};
use std::time::Duration;

use emu::{Lab, ManualChange, RunningLab};
use link::{DropReason, StageUpdate};
use serde::Deserialize;
use serde_json::{Map, Value, json};
use units::{Rate, Span};

/// Longest wait for a request, and for the reader of the reply.
const IO_TIMEOUT: Duration = Duration::from_millis(200);
/// Maximum length of a request in bytes.
const MAX_REQUEST_BYTES: u64 = 4096;

/// The listening socket and the changes made so far.
#[derive(Debug)]
pub struct ControlSocket {
    listener: UnixListener,
    manual_changes: Vec<(String, ManualChange)>,
}

/// A request.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct ControlRequest {
    /// A query, which changes no settings.
    query: Option<ControlQuery>,
    /// A link of the scenario; `None` for the only one.
    link: Option<String>,
    /// `up` or `down`; `None` for both.
    direction: Option<String>,
    rate_bit_s: Option<u64>,
    delay_ns: Option<u64>,
    loss: Option<f64>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "snake_case")]
enum ControlQuery {
    /// The simplex links with their settings.
    Path,
    /// The simplex links, and the counters of each link.
    Counters,
}

impl ControlSocket {
    /// Creates the socket at `path`.
    ///
    /// # Errors
    /// Returns an error if it cannot be created.
    pub fn open(path: &str) -> io::Result<ControlSocket> {
        let context = |error| io::Error::other(format!("control {path}: {error}"));
        let listener = UnixListener::bind(path).map_err(context)?;
        listener.set_nonblocking(true)?;
        Ok(ControlSocket { listener, manual_changes: Vec::new() })
    }

    /// Serves one waiting client, if any.
    pub fn poll(&mut self, lab: &Lab, running: &RunningLab) {
        if let Ok((stream, _)) = self.listener.accept() {
            // A client that does not read its reply misses it.
            let _ = self.serve(&stream, lab, running);
        }
    }

    fn serve(&mut self, stream: &UnixStream, lab: &Lab, running: &RunningLab) -> io::Result<()> {
        stream.set_nonblocking(false)?;
        stream.set_read_timeout(Some(IO_TIMEOUT))?;
        stream.set_write_timeout(Some(IO_TIMEOUT))?;
        let mut line = String::new();
        BufReader::new(stream.take(MAX_REQUEST_BYTES)).read_line(&mut line)?;
        let reply = match self.execute(&line, lab, running) {
            Ok(reply) => reply,
            Err(error) => json!({"error": error.to_string()}),
        };
        let mut stream = stream;
        writeln!(stream, "{reply}")
    }

    fn execute(&mut self, line: &str, lab: &Lab, running: &RunningLab) -> io::Result<Value> {
        let request: ControlRequest = serde_json::from_str(line)?;
        match request.query {
            None => {
                self.apply_change(request, lab, running)?;
                Ok(json!({"done": true}))
            }
            Some(ControlQuery::Path) => Ok(self.report_path(lab, running, None)),
            Some(ControlQuery::Counters) => {
                Ok(self.report_path(lab, running, Some(report_counters(lab, running))))
            }
        }
    }

    /// Returns the current settings of the path.
    fn report_path(&self, lab: &Lab, running: &RunningLab, counters: Option<Value>) -> Value {
        let now = running.clock.now();
        json!({"done": true, "time_ns": now.0, "simplex_links": lab.settings_at(&self.manual_changes, now), "links": counters})
    }

    fn apply_change(
        &mut self,
        request: ControlRequest,
        lab: &Lab,
        running: &RunningLab,
    ) -> io::Result<()> {
        let reject = |what: &str| Err(io::Error::other(what));
        let change = match (request.rate_bit_s, request.delay_ns, request.loss) {
            (Some(rate), None, None) if rate > 0 => StageUpdate::Rate(Rate(rate)),
            (None, Some(delay), None) => StageUpdate::Delay(Span(delay)),
            (None, None, Some(loss)) if (0.0..=1.0).contains(&loss) => StageUpdate::Loss(loss),
            _ => {
                return reject(
                    "expected one of rate_bit_s above 0, delay_ns, loss between 0 and 1",
                );
            }
        };
        let directions: &[&str] = match request.direction.as_deref() {
            None => &["up", "down"],
            Some("up") => &["up"],
            Some("down") => &["down"],
            Some(_) => return reject("direction: expected \"up\" or \"down\""),
        };
        let link = match (request.link, &lab.link_names[..]) {
            (Some(link), _) => link,
            (None, [only]) => only.clone(),
            (None, several) => {
                let names = several.join(", ");
                return reject(&format!(
                    "found no SEGMENT before the key, expected one of: {names}"
                ));
            }
        };
        let simplex_links: Vec<String> =
            directions.iter().map(|direction| format!("{link}.{direction}")).collect();
        // All directions are checked before the first changes.
        simplex_links.iter().try_for_each(|simplex_link| lab.check_update(simplex_link, change))?;
        simplex_links
            .iter()
            .try_for_each(|simplex_link| lab.apply_update(running, simplex_link, change))?;
        let at = running.clock.now();
        self.manual_changes
            .extend(simplex_links.into_iter().map(|line| (line, ManualChange { at, change })));
        Ok(())
    }
}

/// Returns the statistics of each link under the names of a result.
fn report_counters(lab: &Lab, running: &RunningLab) -> Value {
    let links = lab.link_names.iter().zip(running.read_stats()).map(|(name, directions)| {
        let [up, down] = directions.map(|stats| {
            let dropped: Map<String, Value> =
                DropReason::ALL.iter().zip(stats.dropped).map(|(cause, n)| (cause.name().to_owned(), json!(n))).collect();
            json!({
                "time_ns": stats.sampled_at.0, "packets_in": stats.packets_in, "packets_out": stats.packets_out,
                "bytes_out": stats.bytes_out, "queued_packets": stats.queued.0, "queued_bytes": stats.queued.1,
                "dropped": dropped,
            })
        });
        json!({"name": name, "up": up, "down": down})
    });
    links.collect()
}
