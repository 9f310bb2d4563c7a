//! The series of a session: a row for each segment, direction and interval.

use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::Path;

use emu::{Progress, Running};
use endpoint::say;
use path::Cause;

use super::plan::Record;

/// The file of a record.
const FILE: &str = "links.csv";

/// A file that grows.
pub struct Series {
    names: Vec<String>,
    file: Option<BufWriter<File>>,
    interval_ns: u64,
    due_ns: u64,
    /// Why the series end before the session.
    pub error: Option<String>,
}

impl Series {
    /// Begins the file.
    ///
    /// # Errors
    /// It cannot be written.
    pub fn begin(record: &Record, names: &[String]) -> io::Result<Series> {
        let place = Path::new(&record.directory).join(FILE);
        let told = |error| io::Error::other(format!("{}: {error}", place.display()));
        std::fs::create_dir_all(&record.directory).map_err(told)?;
        let mut file = BufWriter::new(File::create(&place).map_err(told)?);
        let dropped: Vec<String> =
            Cause::ALL.iter().map(|cause| format!("dropped_{}", cause.name())).collect();
        let (head, causes) = (
            "time_s,segment,direction,packets_in,packets_out,bytes_out,queued_packets,queued_bytes",
            dropped.join(","),
        );
        writeln!(file, "{head},{causes},late_p99_ms").map_err(told)?;
        let interval_ns = record.interval_ns.max(1_000_000);
        Ok(Series { names: names.to_vec(), file: Some(file), interval_ns, due_ns: 0, error: None })
    }

    /// Writes a row of each direction if it is time for one. A disk that is full ends the series, not the session.
    pub fn look(&mut self, running: &Running) {
        let now = running.clock.now().0;
        if now < self.due_ns {
            return;
        }
        self.due_ns = (now / self.interval_ns + 1) * self.interval_ns;
        self.write(&running.read());
    }

    /// The last rows.
    pub fn end(&mut self, progress: &[[Progress; 2]]) {
        self.write(progress);
        if let Some(mut file) = self.file.take()
            && let Err(error) = file.flush()
        {
            self.fail(&error);
        }
    }

    fn write(&mut self, progress: &[[Progress; 2]]) {
        let Some(file) = &mut self.file else { return };
        let mut rows = || -> io::Result<()> {
            for (name, ways) in self.names.iter().zip(progress) {
                for (direction, p) in ["up", "down"].iter().zip(ways) {
                    let dropped: Vec<String> = p.dropped.iter().map(u64::to_string).collect();
                    let late = p.lateness.quantile(0.99).map_or(0.0, |late| late.millis());
                    writeln!(
                        file,
                        "{:.4},{name},{direction},{},{},{},{},{},{},{late:.3}",
                        p.at.0 as f64 / 1e9,
                        p.packets_in,
                        p.packets_out,
                        p.bytes_out,
                        p.queued.0,
                        p.queued.1,
                        dropped.join(","),
                    )?;
                }
            }
            Ok(())
        };
        if let Err(error) = rows() {
            self.fail(&error);
        }
    }

    fn fail(&mut self, error: &io::Error) {
        let told = format!("{FILE}: {error}; the series end here");
        say(format_args!("bentpipe: {told}"));
        self.error = Some(told);
        self.file = None;
    }
}
