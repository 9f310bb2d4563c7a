//! The callee of a media call.

use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use runtime::{Clock, log_stderr};
use transport::media::{LOSS_TIMEOUT, SourceSpec};
use transport::perf_load::PeriodDistribution;
use units::{RandomStream, Span, Time};

use super::plan::CalleePlan;
use super::report::DirectionReport;
use super::session::{MediaSession, is_stopped};
use super::signalling::{self, CallAnswer, CallOffer, RemoteReport};
use super::{MAX_BIT_S, MAX_CALL_SECONDS};
use crate::ProgramError;

/// The timeout of an offer after the connection is accepted.
const OFFER_TIMEOUT: Duration = Duration::from_secs(10);

/// The maximum age of a call's start in a run: the source skips the datagrams due since then.
const MAX_START_AGE: Span = Span::from_secs(10);

/// The minimum values in an untrusted offer: the datagram interval, and the mean of a sending period.
const MIN_INTERVAL: Span = Span::from_micros(10);
const MIN_PERIOD: Span = Span::from_millis(1);

/// The maximum of concurrent offers in addition to the calls.
const MAX_PENDING_OFFERS: usize = 64;

/// The interval of checks for new connections.
const ACCEPT_INTERVAL: Duration = Duration::from_millis(20);

/// A listening callee.
pub struct Callee {
    listener: TcpListener,
    plan: CalleePlan,
}

impl Callee {
    /// Opens the listener.
    ///
    /// # Errors
    /// An invalid address, or one in use.
    pub fn bind(plan: CalleePlan) -> Result<Callee, ProgramError> {
        let why = |error| ProgramError::Input(format!("--listen: {}: {error}", plan.listen));
        let listener = TcpListener::bind(&plan.listen).map_err(why)?;
        listener.set_nonblocking(true).map_err(why)?;
        Ok(Callee { listener, plan })
    }

    /// Returns the listening address.
    ///
    /// # Errors
    /// An error of the kernel.
    pub fn local_addr(&self) -> io::Result<SocketAddr> {
        self.listener.local_addr()
    }

    /// Serves calls until `stop` is set, or one call if the plan requests that. Writes a line per call to `screen`.
    ///
    /// # Errors
    /// An error of the listener.
    pub fn run(self, stop: &AtomicBool, mut screen: Box<dyn Write>) -> Result<bool, ProgramError> {
        writeln!(screen, "listening at {}", self.local_addr()?)?;
        let busy = Arc::new(AtomicUsize::new(0));
        let (ended, ends) = std::sync::mpsc::channel();
        std::thread::scope(|scope| -> Result<(), ProgramError> {
            loop {
                while let Ok(line) = ends.try_recv() {
                    let line: String = line;
                    writeln!(screen, "{line}")?;
                    if self.plan.once {
                        return Ok(());
                    }
                }
                if is_stopped(stop) {
                    return Ok(());
                }
                match self.listener.accept() {
                    Ok((line, peer)) => {
                        let (busy, ended) = (busy.clone(), ended.clone());
                        let max_calls = self.plan.calls;
                        // Callers that are only refused are limited as well.
                        if busy.load(Ordering::Relaxed) >= max_calls + MAX_PENDING_OFFERS {
                            continue;
                        }
                        let media = self.plan.media;
                        scope.spawn(move || {
                            let has_capacity = busy.fetch_add(1, Ordering::Relaxed) < max_calls;
                            let output = match serve_call(line, peer, (has_capacity, media), stop) {
                                Ok(output) => output,
                                Err(error) => format!("{peer}: {error}"),
                            };
                            busy.fetch_sub(1, Ordering::Relaxed);
                            // The receiver may have ended already.
                            let _ = ended.send(output);
                        });
                    }
                    Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                        std::thread::sleep(ACCEPT_INTERVAL);
                    }
                    Err(error) => log_stderr(format_args!("accept: {error}")),
                }
            }
        })?;
        Ok(is_stopped(stop))
    }
}

/// Serves one call. Returns its line of output.
fn serve_call(
    mut line: TcpStream,
    peer: SocketAddr,
    (has_capacity, media): (bool, Option<u16>),
    stop: &AtomicBool,
) -> io::Result<String> {
    line.set_nonblocking(false)?;
    line.set_nodelay(true)?;
    // A caller that does not read the answers must not block the thread.
    line.set_write_timeout(Some(OFFER_TIMEOUT))?;
    let offer: CallOffer =
        signalling::receive_line(&mut line, signalling::MAX_OFFER_BYTES, OFFER_TIMEOUT)?;
    let machine = signalling::boot_id();
    let one_clock = !machine.is_empty() && machine == offer.machine;
    // A common clock gives equal windows on both sides; on two machines both start with the offer.
    let clock = if one_clock { Clock::with_zero_at(offer.zero_ns) } else { Clock::start() };
    let now = clock.now();
    if let Some(why) = refusal(&offer, has_capacity, now) {
        signalling::send_line(&mut line, &CallAnswer::Refused(why.clone()))?;
        return Ok(format!("{peer}: refused: {why}"));
    }
    let socket = UdpSocket::bind((line.local_addr()?.ip(), media.unwrap_or(0)))?;
    let port = socket.local_addr()?.port();
    let now = clock.monotonic_ns(clock.now());
    let answer = CallAnswer::Ready { port, machine, clock_ns: now };
    signalling::send_line(&mut line, &answer)?;
    socket.connect((peer.ip(), offer.port))?;
    let duration = Span(offer.load.duration_ns);
    // The random stream of the server in a run.
    let (name, start) = match (&offer.flow, one_clock) {
        (Some((name, start)), true) => (name.as_str(), Time(*start)),
        _ => ("call", clock.now()),
    };
    let random = RandomStream::named(offer.seed, name, "periods server");
    let down = offer.load.down.as_ref();
    let mut media = MediaSession::new(socket, clock, down, (start, duration), 0, random)?;
    let end = clock.now() + duration + LOSS_TIMEOUT * 2;
    // The callee stops sending when the caller hangs up or disappears.
    line.set_nonblocking(true)?;
    let has_ended = || {
        let mut byte = [0];
        let open = matches!((&line).read(&mut byte), Err(error)
            if error.kind() == io::ErrorKind::WouldBlock);
        !open || is_stopped(stop)
    };
    media.run(end, &has_ended)?;
    line.set_nonblocking(false)?;
    let up = DirectionReport::from_stats(media.receiver_stats());
    let received: u64 = up.windows.iter().map(|window| window.received_packets).sum();
    let sent: u64 = media.sent_by_window().values().sum();
    let sent_by_window = media.sent_by_window().into_iter().collect();
    let late_ns = media.lag_p95_ns();
    signalling::send_line(&mut line, &RemoteReport { up, sent: sent_by_window, late_ns })?;
    Ok(format!("{peer}: received {received} datagrams, sent {sent}"))
}

/// Returns the reason to refuse a call.
fn refusal(offer: &CallOffer, has_capacity: bool, now: Time) -> Option<String> {
    if !has_capacity {
        return Some("the server is at its limit of calls (--calls)".to_owned());
    }
    if let Err(error) = offer.load.check() {
        return Some(error);
    }
    if offer.load.duration_ns > MAX_CALL_SECONDS * 1_000_000_000 {
        return Some(format!(
            "found {} ns, expected at most {MAX_CALL_SECONDS} s",
            offer.load.duration_ns
        ));
    }
    if let Some((_, start)) = &offer.flow
        && start.abs_diff(now.nanos()) > MAX_START_AGE.nanos()
    {
        let expected = MAX_START_AGE.seconds();
        return Some(format!(
            "found a call that began at {start} ns, expected within {expected} s"
        ));
    }
    let sources = || offer.load.up.iter().chain(&offer.load.down);
    if let Some(why) = sources().find_map(timing_refusal) {
        return Some(why);
    }
    let rate = |source: &SourceSpec| {
        u64::from(source.payload_bytes) * 8_000_000_000 / source.interval_ns.max(1)
    };
    let max_rate = sources().map(rate).max().unwrap_or(0);
    (max_rate > MAX_BIT_S).then(|| format!("found {max_rate} bit/s, expected at most {MAX_BIT_S}"))
}

/// Returns the reason why a source would use too much CPU: intervals or sending periods that are too short.
fn timing_refusal(source: &SourceSpec) -> Option<String> {
    let report_minimum = |what: &str, found: String, expected: &str| {
        Some(format!("{what}: found {found}, expected {expected} or more"))
    };
    if source.interval_ns < MIN_INTERVAL.nanos() {
        return report_minimum("interval_ns", source.interval_ns.to_string(), "10000");
    }
    let periods = source.periods?;
    if periods.on_ns < MIN_PERIOD.nanos() {
        return report_minimum("on_ns", periods.on_ns.to_string(), "1000000");
    }
    match periods.distribution {
        // The shortest period is then one twentieth of the mean.
        PeriodDistribution::Pareto { shape } if shape < 1.05 => {
            report_minimum("shape", shape.to_string(), "1.05")
        }
        _ => None,
    }
}

/// Runs the work that an untrusted offer causes at time `now`; for fuzzing.
#[cfg(feature = "test-support")]
pub fn exercise_offer(offer: &CallOffer, now: Time) {
    if refusal(offer, true, now).is_some() {
        return;
    }
    let Some(spec) = &offer.load.down else { return };
    let start = offer.flow.as_ref().map_or(now, |(_, start)| Time(*start));
    let random = RandomStream::named(offer.seed, "call", "periods server");
    let mut source =
        transport::media::MediaSource::new(spec, start, Span(offer.load.duration_ns), random);
    let mut sent = 0u64;
    while source.next_datagram(now + Span::from_millis(100)).is_some() {
        sent += 1;
    }
    // Ten seconds of skipped datagrams, and a tenth of a second.
    assert!(sent <= 2_020_000, "{sent} datagrams");
}
