//! The time series of a session. Each interval has a row for each link and direction, each user of a radio link, and
//! each queue of a user.

use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};

use emu::{ForwarderStats, RunningLab};
use link::DropReason;
use runtime::log_stderr;

use super::plan::RecordPlan;

/// The files of the time series.
const LINKS: &str = "links.csv";
const USERS: &str = "radio_users.csv";
const QUEUES: &str = "user_queues.csv";

/// The open files of the time series.
pub struct SeriesWriter {
    link_names: Vec<String>,
    directory: PathBuf,
    links: Option<BufWriter<File>>,
    /// Created with the first user of a radio link.
    users: Option<BufWriter<File>>,
    /// Created with the first packet in a scheduler.
    queues: Option<BufWriter<File>>,
    interval_ns: u64,
    due_ns: u64,
    /// The error that ended the time series before the session.
    pub error: Option<String>,
}

impl SeriesWriter {
    /// Creates the file of the links.
    ///
    /// # Errors
    /// Returns an error if it cannot be written.
    pub fn create(record: &RecordPlan, link_names: &[String]) -> io::Result<SeriesWriter> {
        let directory = PathBuf::from(&record.directory);
        let context = |error| io::Error::other(format!("{}: {error}", directory.display()));
        std::fs::create_dir_all(&directory).map_err(context)?;
        let dropped: Vec<String> =
            DropReason::ALL.iter().map(|cause| format!("dropped_{}", cause.name())).collect();
        let (columns, causes) = (
            "time_s,segment,direction,packets_in,packets_out,bytes_out,queued_packets,queued_bytes",
            dropped.join(","),
        );
        let links = create_file(&directory, LINKS, &format!("{columns},{causes},lateness_p99_ms"))?;
        Ok(SeriesWriter {
            link_names: link_names.to_vec(),
            directory,
            links: Some(links),
            users: None,
            queues: None,
            interval_ns: record.interval_ns.max(1_000_000),
            due_ns: 0,
            error: None,
        })
    }

    /// Writes the rows of all directions if they are due. A full disk ends the time series, not the session.
    pub fn poll(&mut self, running: &RunningLab) {
        let now = running.clock.now().0;
        if now < self.due_ns {
            return;
        }
        self.due_ns = (now / self.interval_ns + 1) * self.interval_ns;
        self.write(&running.read_stats());
    }

    /// Writes the last rows.
    pub fn finish(&mut self, stats: &[[ForwarderStats; 2]]) {
        self.write(stats);
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

    fn write(&mut self, stats: &[[ForwarderStats; 2]]) {
        if let Err((name, error)) = self.write_rows(stats) {
            self.fail(name, &error);
        }
    }

    fn write_rows(
        &mut self,
        stats: &[[ForwarderStats; 2]],
    ) -> Result<(), (&'static str, io::Error)> {
        let Some(links) = &mut self.links else { return Ok(()) };
        let rows = || {
            let link_stats = self.link_names.iter().zip(stats);
            link_stats.flat_map(|(name, directions)| {
                ["up", "down"].map(|direction| (name, direction)).into_iter().zip(directions)
            })
        };
        rows()
            .try_for_each(|(at, p)| write_link_row(links, at, p))
            .map_err(|error| (LINKS, error))?;
        if rows().any(|(_, p)| !p.user_stats.is_empty()) {
            open_or_create(&mut self.users, &self.directory, USERS, USERS_HEAD)
                .and_then(|file| rows().try_for_each(|(at, p)| write_user_rows(file, at, p)))
                .map_err(|error| (USERS, error))?;
        }
        if rows().any(|(_, p)| !p.user_queues.is_empty()) {
            open_or_create(&mut self.queues, &self.directory, QUEUES, QUEUES_HEAD)
                .and_then(|file| rows().try_for_each(|(at, p)| write_queue_rows(file, at, p)))
                .map_err(|error| (QUEUES, error))?;
        }
        Ok(())
    }

    fn fail(&mut self, name: &str, error: &io::Error) {
        let message = format!("{name}: {error}; the time series end here");
        log_stderr(format_args!("bentpipe: {message}"));
        self.error = Some(message);
        (self.links, self.users, self.queues) = (None, None, None);
    }
}

/// Returns `file`, or creates a file with this name and header.
fn open_or_create<'a>(
    file: &'a mut Option<BufWriter<File>>,
    directory: &Path,
    name: &str,
    head: &str,
) -> io::Result<&'a mut BufWriter<File>> {
    match file {
        Some(file) => Ok(file),
        none => create_file(directory, name, head).map(|file| none.insert(file)),
    }
}

fn create_file(directory: &Path, name: &str, head: &str) -> io::Result<BufWriter<File>> {
    let path = directory.join(name);
    let begin = || -> io::Result<BufWriter<File>> {
        let mut file = BufWriter::new(File::create(&path)?);
        writeln!(file, "{head}")?;
        Ok(file)
    };
    begin().map_err(|error| io::Error::other(format!("{}: {error}", path.display())))
}

fn write_link_row(
    file: &mut impl Write,
    (name, direction): (&String, &str),
    stats: &ForwarderStats,
) -> io::Result<()> {
    let dropped: Vec<String> = stats.dropped.iter().map(u64::to_string).collect();
    let late = stats.lateness.quantile(0.99).map_or(0.0, |late| late.millis());
    writeln!(
        file,
        "{:.4},{name},{direction},{},{},{},{},{},{},{late:.3}",
        stats.sampled_at.0 as f64 / 1e9,
        stats.packets_in,
        stats.packets_out,
        stats.bytes_out,
        stats.queued.0,
        stats.queued.1,
        dropped.join(","),
    )
}

/// Columns of the table of users (docs/reference/results.md), with the direction names of the emulator.
const USERS_HEAD: &str = "time_s,segment,direction,user,attempts,duplicate_attempts,airtime_s,coded_bits,useful_bits,\
    decoded_after_0_packets,decoded_after_1_packets,decoded_after_2_packets,decoded_after_3_packets,\
    decoded_after_more_packets,dropped_retry_limit_packets";

fn write_user_rows(
    file: &mut impl Write,
    (name, direction): (&String, &str),
    stats: &ForwarderStats,
) -> io::Result<()> {
    for (user, tally) in stats.user_stats.iter().enumerate().filter(|(_, tally)| !tally.is_empty())
    {
        let after = |n: usize| tally.decoded_after.get(n).copied().unwrap_or(0);
        writeln!(
            file,
            "{:.4},{name},{direction},{user},{},{},{:.9},{},{},{},{},{},{},{},{}",
            stats.sampled_at.0 as f64 / 1e9,
            tally.attempts,
            tally.duplicates,
            tally.airtime.seconds(),
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

/// Columns of the table of user queues. Unknown values are empty.
const QUEUES_HEAD: &str = "time_s,segment,direction,user,arrived_packets,sent_packets,queued_packets,queued_bytes,\
    queueing_sum_s,queueing_max_s,dropped_overflow_packets,dropped_deadline_packets,dropped_outage_packets,best_channel_s,best_channel_periods";

fn write_queue_rows(
    file: &mut impl Write,
    (name, direction): (&String, &str),
    stats: &ForwarderStats,
) -> io::Result<()> {
    for queue in &stats.user_queues {
        write!(
            file,
            "{:.4},{name},{direction},{},{},{},{},{},{:.9},{:.9},{},{},{},",
            stats.sampled_at.0 as f64 / 1e9,
            queue.user,
            queue.arrived,
            queue.sent,
            queue.queued_packets,
            queue.queued_bytes,
            queue.total_wait.seconds(),
            queue.max_wait.seconds(),
            queue.dropped_overflow,
            queue.dropped_late,
            queue.dropped_outage,
        )?;
        match queue.best_channel {
            Some((time, spells)) => writeln!(file, "{:.9},{spells}", time.seconds())?,
            None => writeln!(file, ",")?,
        }
    }
    Ok(())
}
