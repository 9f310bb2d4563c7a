//! The answering side.

use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use transport::calls::{PATIENCE, Source, SourceSpec};
use transport::load::DrawSpec;
use units::{RandomStream, Span, Time};

use super::media::{Media, stopped};
use super::plan::AnswerPlan;
use super::told::Direction;
use super::words::{self, Answer, Ask, Heard};
use super::{MOST_BIT_S, MOST_SECONDS};
use crate::clock::Clock;
use crate::perf::Failure;
use crate::say::say;

/// How long somebody who has connected may take to ask.
const ASKING: Duration = Duration::from_secs(10);

/// A call of a run has not begun longer ago: what was due since is gone through.
const OLDEST: Span = Span::from_secs(10);

/// Of what a stranger asks for, the shortest that is done: between two datagrams, and a mean period of sending.
const LEAST_INTERVAL: Span = Span::from_micros(10);
const LEAST_PERIOD: Span = Span::from_millis(1);

/// Beside those who call, so many may ask at once.
const WAITING: usize = 64;

/// Between two looks for somebody who connects.
const LOOK: Duration = Duration::from_millis(20);

/// A listening side.
pub struct Answering {
    listener: TcpListener,
    plan: AnswerPlan,
}

impl Answering {
    /// Listens.
    ///
    /// # Errors
    /// An address that is none, or taken.
    pub fn bind(plan: AnswerPlan) -> Result<Answering, Failure> {
        let why = |error| Failure::Input(format!("--listen: {}: {error}", plan.listen));
        let listener = TcpListener::bind(&plan.listen).map_err(why)?;
        listener.set_nonblocking(true).map_err(why)?;
        Ok(Answering { listener, plan })
    }

    /// Where it listens.
    ///
    /// # Errors
    /// The kernel's.
    pub fn address(&self) -> io::Result<SocketAddr> {
        self.listener.local_addr()
    }

    /// Answers until it is to stop, or after one call if that is what was asked for; a line on `screen` for each.
    ///
    /// # Errors
    /// The listener's.
    pub fn run(self, stop: &AtomicBool, mut screen: Box<dyn Write>) -> Result<bool, Failure> {
        writeln!(screen, "listening at {}", self.address()?)?;
        let busy = Arc::new(AtomicUsize::new(0));
        let (ended, ends) = std::sync::mpsc::channel();
        std::thread::scope(|scope| -> Result<(), Failure> {
            loop {
                while let Ok(line) = ends.try_recv() {
                    let line: String = line;
                    writeln!(screen, "{line}")?;
                    if self.plan.once {
                        return Ok(());
                    }
                }
                if stopped(stop) {
                    return Ok(());
                }
                match self.listener.accept() {
                    Ok((line, peer)) => {
                        let (busy, ended) = (busy.clone(), ended.clone());
                        let most = self.plan.calls;
                        // Those who only hear that there is no room are few at a time, too.
                        if busy.load(Ordering::Relaxed) >= most + WAITING {
                            continue;
                        }
                        let media = self.plan.media;
                        scope.spawn(move || {
                            let room = busy.fetch_add(1, Ordering::Relaxed) < most;
                            let told = match one(line, peer, (room, media), stop) {
                                Ok(told) => told,
                                Err(error) => format!("{peer}: {error}"),
                            };
                            busy.fetch_sub(1, Ordering::Relaxed);
                            // Nobody is told once it has ended.
                            let _ = ended.send(told);
                        });
                    }
                    Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                        std::thread::sleep(LOOK);
                    }
                    Err(error) => say(format_args!("accept: {error}")),
                }
            }
        })?;
        Ok(stopped(stop))
    }
}

/// One call; what there is to say of it.
fn one(
    mut line: TcpStream,
    peer: SocketAddr,
    (room, media): (bool, Option<u16>),
    stop: &AtomicBool,
) -> io::Result<String> {
    line.set_nonblocking(false)?;
    line.set_nodelay(true)?;
    // Who does not listen to the answers does not keep anybody.
    line.set_write_timeout(Some(ASKING))?;
    let ask: Ask = words::hear(&mut line, words::QUESTION, ASKING)?;
    let machine = words::machine();
    let one_clock = !machine.is_empty() && machine == ask.machine;
    // One clock for both, so that they count the same windows; between machines both begin with the question.
    let clock = if one_clock { Clock::since(ask.zero_ns) } else { Clock::start() };
    let now = clock.now();
    if let Some(why) = refusal(&ask, room, now) {
        words::say(&mut line, &Answer::Refused(why.clone()))?;
        return Ok(format!("{peer}: refused: {why}"));
    }
    let socket = UdpSocket::bind((line.local_addr()?.ip(), media.unwrap_or(0)))?;
    let port = socket.local_addr()?.port();
    let now = clock.monotonic_ns(clock.now());
    let answer = Answer::Ready { port, machine, clock_ns: now };
    words::say(&mut line, &answer)?;
    socket.connect((peer.ip(), ask.port))?;
    let duration = Span(ask.load.duration_ns);
    // What a run draws for its server.
    let (name, start) = match (&ask.flow, one_clock) {
        (Some((name, start)), true) => (name.as_str(), Time(*start)),
        _ => ("call", clock.now()),
    };
    let random = RandomStream::named(ask.seed, name, "periods server");
    let down = ask.load.down.as_ref();
    let mut media = Media::new(socket, clock, down, (start, duration), 0, random)?;
    let end = clock.now() + duration + PATIENCE * 2;
    // Who hangs up, or is gone, is sent nothing more.
    line.set_nonblocking(true)?;
    let gone = || {
        let mut byte = [0];
        let open = matches!((&line).read(&mut byte), Err(error)
            if error.kind() == io::ErrorKind::WouldBlock);
        !open || stopped(stop)
    };
    media.run(end, &gone)?;
    line.set_nonblocking(false)?;
    let up = Direction::of(media.heard());
    let heard: u64 = up.windows.iter().map(|window| window.received_packets).sum();
    let sent: u64 = media.sent().values().sum();
    let sent_by_window = media.sent().into_iter().collect();
    let late_ns = media.late_ns();
    words::say(&mut line, &Heard { up, sent: sent_by_window, late_ns })?;
    Ok(format!("{peer}: heard {heard} datagrams, sent {sent}"))
}

/// Why a call is not answered.
fn refusal(ask: &Ask, room: bool, now: Time) -> Option<String> {
    if !room {
        return Some("too many calls at once (--calls)".to_owned());
    }
    if let Err(error) = ask.load.check() {
        return Some(error);
    }
    if ask.load.duration_ns > MOST_SECONDS * 1_000_000_000 {
        return Some(format!(
            "found {} ns, expected at most {MOST_SECONDS} s",
            ask.load.duration_ns
        ));
    }
    if let Some((_, start)) = &ask.flow
        && start.abs_diff(now.nanos()) > OLDEST.nanos()
    {
        let expected = OLDEST.seconds();
        return Some(format!(
            "found a call that began at {start} ns, expected within {expected} s"
        ));
    }
    let sources = || ask.load.up.iter().chain(&ask.load.down);
    if let Some(why) = sources().find_map(restless) {
        return Some(why);
    }
    let rate = |source: &SourceSpec| {
        u64::from(source.payload_bytes) * 8_000_000_000 / source.interval_ns.max(1)
    };
    let most = sources().map(rate).max().unwrap_or(0);
    (most > MOST_BIT_S).then(|| format!("found {most} bit/s, expected at most {MOST_BIT_S}"))
}

/// Why a source would take a processor for itself: datagrams, or periods of sending, that are too short.
fn restless(source: &SourceSpec) -> Option<String> {
    let least = |what: &str, found: String, expected: &str| {
        Some(format!("{what}: found {found}, expected {expected} or more"))
    };
    if source.interval_ns < LEAST_INTERVAL.nanos() {
        return least("interval_ns", source.interval_ns.to_string(), "10000");
    }
    let periods = source.periods?;
    if periods.on_ns < LEAST_PERIOD.nanos() {
        return least("on_ns", periods.on_ns.to_string(), "1000000");
    }
    match periods.draw {
        // The shortest period is a twentieth of the mean then.
        DrawSpec::Pareto { shape } if shape < 1.05 => least("shape", shape.to_string(), "1.05"),
        _ => None,
    }
}

/// What a stranger who has connected makes of it, with `now` on the clock; for fuzzing.
pub(super) fn exercise(ask: &Ask, now: Time) {
    if refusal(ask, true, now).is_some() {
        return;
    }
    let Some(spec) = &ask.load.down else { return };
    let start = ask.flow.as_ref().map_or(now, |(_, start)| Time(*start));
    let random = RandomStream::named(ask.seed, "call", "periods server");
    let mut source = Source::new(spec, start, Span(ask.load.duration_ns), random);
    let mut sent = 0u64;
    while source.take(now + Span::from_millis(100)).is_some() {
        sent += 1;
    }
    // Ten seconds that are gone through, and a tenth of one.
    assert!(sent <= 2_020_000, "{sent} datagrams");
}
