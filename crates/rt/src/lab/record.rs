//! The series of a session: a row for each segment, direction and interval, for each user of a radio link, and for each
//! user's queue.

use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};

use emu::{Progress, Running};
use endpoint::say;
use path::Cause;

use super::plan::Record;

/// The files of a record.
const LINKS: &str = "links.csv";
const USERS: &str = "users.csv";
const QUEUES: &str = "user_queues.csv";

/// Files that grow.
pub struct Series {
    names: Vec<String>,
    directory: PathBuf,
    links: Option<BufWriter<File>>,
    /// Begun with the first user of a radio link.
    users: Option<BufWriter<File>>,
    /// Begun with the first packet that a scheduler has.
    queues: Option<BufWriter<File>>,
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
        let directory = PathBuf::from(&record.directory);
        let told = |error| io::Error::other(format!("{}: {error}", directory.display()));
        std::fs::create_dir_all(&directory).map_err(told)?;
        let dropped: Vec<String> =
            Cause::ALL.iter().map(|cause| format!("dropped_{}", cause.name())).collect();
        let (head, causes) = (
            "time_s,segment,direction,packets_in,packets_out,bytes_out,queued_packets,queued_bytes",
            dropped.join(","),
        );
        let links = create(&directory, LINKS, &format!("{head},{causes},late_p99_ms"))?;
        Ok(Series {
            names: names.to_vec(),
            directory,
            links: Some(links),
            users: None,
            queues: None,
            interval_ns: record.interval_ns.max(1_000_000),
            due_ns: 0,
            error: None,
        })
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
        let files =
            [(LINKS, self.links.take()), (USERS, self.users.take()), (QUEUES, self.queues.take())];
        for (name, file) in files {
            if let Some(mut file) = file
                && let Err(error) = file.flush()
            {
                self.fail(name, &error);
            }
        }
    }

    fn write(&mut self, progress: &[[Progress; 2]]) {
        if let Err((name, error)) = self.rows(progress) {
            self.fail(name, &error);
        }
    }

    fn rows(&mut self, progress: &[[Progress; 2]]) -> Result<(), (&'static str, io::Error)> {
        let Some(links) = &mut self.links else { return Ok(()) };
        let rows = || {
            let each = self.names.iter().zip(progress);
            each.flat_map(|(name, ways)| {
                ["up", "down"].map(|way| (name, way)).into_iter().zip(ways)
            })
        };
        rows().try_for_each(|(at, p)| link(links, at, p)).map_err(|error| (LINKS, error))?;
        if rows().any(|(_, p)| !p.users.is_empty()) {
            begun(&mut self.users, &self.directory, USERS, USERS_HEAD)
                .and_then(|file| rows().try_for_each(|(at, p)| users(file, at, p)))
                .map_err(|error| (USERS, error))?;
        }
        if rows().any(|(_, p)| !p.queues.is_empty()) {
            begun(&mut self.queues, &self.directory, QUEUES, QUEUES_HEAD)
                .and_then(|file| rows().try_for_each(|(at, p)| queues(file, at, p)))
                .map_err(|error| (QUEUES, error))?;
        }
        Ok(())
    }

    fn fail(&mut self, name: &str, error: &io::Error) {
        let told = format!("{name}: {error}; the series end here");
        say(format_args!("bentpipe: {told}"));
        self.error = Some(told);
        (self.links, self.users, self.queues) = (None, None, None);
    }
}

/// `file`, or one by this name with its head.
fn begun<'a>(
    file: &'a mut Option<BufWriter<File>>,
    directory: &Path,
    name: &str,
    head: &str,
) -> io::Result<&'a mut BufWriter<File>> {
    match file {
        Some(file) => Ok(file),
        none => create(directory, name, head).map(|file| none.insert(file)),
    }
}

fn create(directory: &Path, name: &str, head: &str) -> io::Result<BufWriter<File>> {
    let place = directory.join(name);
    let begin = || -> io::Result<BufWriter<File>> {
        let mut file = BufWriter::new(File::create(&place)?);
        writeln!(file, "{head}")?;
        Ok(file)
    };
    begin().map_err(|error| io::Error::other(format!("{}: {error}", place.display())))
}

fn link(file: &mut impl Write, (name, way): (&String, &str), p: &Progress) -> io::Result<()> {
    let dropped: Vec<String> = p.dropped.iter().map(u64::to_string).collect();
    let late = p.lateness.quantile(0.99).map_or(0.0, |late| late.millis());
    writeln!(
        file,
        "{:.4},{name},{way},{},{},{},{},{},{},{late:.3}",
        p.at.0 as f64 / 1e9,
        p.packets_in,
        p.packets_out,
        p.bytes_out,
        p.queued.0,
        p.queued.1,
        dropped.join(","),
    )
}

/// Columns of the table of users (docs/manual/results.md), with the emulator's names of a direction.
const USERS_HEAD: &str = "time_s,segment,direction,user,attempts,copies,air_s,coded_bits,useful_bits,\
    decoded_after_0_packets,decoded_after_1_packets,decoded_after_2_packets,decoded_after_3_packets,\
    decoded_later_packets,dropped_link_packets";

fn users(file: &mut impl Write, (name, way): (&String, &str), p: &Progress) -> io::Result<()> {
    for (user, tally) in p.users.iter().enumerate().filter(|(_, tally)| !tally.is_empty()) {
        let after = |n: usize| tally.decoded_after.get(n).copied().unwrap_or(0);
        writeln!(
            file,
            "{:.4},{name},{way},{user},{},{},{:.9},{},{},{},{},{},{},{},{}",
            p.at.0 as f64 / 1e9,
            tally.attempts,
            tally.copies,
            tally.air.seconds(),
            tally.coded_bits,
            tally.decoded_bytes * 8,
            after(0),
            after(1),
            after(2),
            after(3),
            tally.decoded_after.iter().skip(4).sum::<u64>(),
            tally.dropped_packets,
        )?;
    }
    Ok(())
}

/// Columns of the table of users' queues; what is not known is empty.
const QUEUES_HEAD: &str = "time_s,segment,direction,user,arrived_packets,sent_packets,queued_packets,queued_bytes,\
    waited_s,longest_wait_s,dropped_overflow_packets,dropped_late_packets,dropped_outage_packets,best_s,best_spells";

fn queues(file: &mut impl Write, (name, way): (&String, &str), p: &Progress) -> io::Result<()> {
    for queue in &p.queues {
        write!(
            file,
            "{:.4},{name},{way},{},{},{},{},{},{:.9},{:.9},{},{},{},",
            p.at.0 as f64 / 1e9,
            queue.user,
            queue.arrived,
            queue.sent,
            queue.queued_packets,
            queue.queued_bytes,
            queue.waited.seconds(),
            queue.longest.seconds(),
            queue.dropped_overflow,
            queue.dropped_late,
            queue.dropped_outage,
        )?;
        match queue.best {
            Some((time, spells)) => writeln!(file, "{:.9},{spells}", time.seconds())?,
            None => writeln!(file, ",")?,
        }
    }
    Ok(())
}
