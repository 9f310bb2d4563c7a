//! Measures the wake-up latency of a thread on this machine, and compensates for it.
//!
//! A sleeping thread runs some time after its packet or its timer: the processor leaves its idle state and the kernel
//! switches. A direction measures this latency before its start. It stamps arrivals earlier by the minimum of the
//! samples. It sleeps in two steps: a long one that ends early, and a short one. The short one ends nearly on time,
//! because the processor is no longer idle. No packet is sent before it is due.

use std::fs::File;
use std::io;
use std::net::{SocketAddr, UdpSocket};
use std::sync::Arc;
use std::time::Duration;

use tun_rs::SyncDevice;
use units::{Span, Time};

use crate::clock::{self, EmulatorClock};
use crate::namespace::{self, DeviceAddress};

/// Maximum correction. A larger latency means a busy machine, and its lateness must stay visible.
const MAX_CORRECTION: Span = Span(200_000);

/// Longer waits are slept in two steps. This is the maximum sum of both corrections.
const TWO_STEP_THRESHOLD: Span = Span(2 * MAX_CORRECTION.0);

/// Samples of each kind. All samples of a direction take a sixth of a second.
const ROUNDS: usize = 16;
/// Long enough for the processor to enter an idle state.
const LONG_SLEEP: Duration = Duration::from_millis(5);
/// The remaining time after a long sleep that ended early.
const SHORT_SLEEP: Duration = Duration::from_micros(150);
/// Longest wait for a packet that was sent on this machine.
const PROBE_TIMEOUT: Duration = Duration::from_millis(100);
/// The discard port (RFC 863). No process listens on it, and no packet for it is forwarded.
const DISCARD_PORT: u16 = 9;
/// Largest packet read.
const MAX_PACKET_BYTES: usize = 65_535;

/// The measured wake-up latencies of a direction.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Calibration {
    /// The latency from a packet in the device to the waiting thread.
    pub arrival: Span,
    /// The excess of a sleep of milliseconds.
    pub long_sleep: Span,
    /// The minimum excess of a sleep of about 100 microseconds.
    pub short_sleep: Span,
}

impl Calibration {
    /// Computes the corrections. Arrivals and short sleeps use the minimum, so that no correction exceeds the real
    /// latency. Long sleeps use the 90th percentile, which only makes them end early. Without samples a correction is
    /// 0.
    pub fn from_samples(arrivals: &[Span], long: &[Span], short: &[Span]) -> Calibration {
        let minimum = |samples: &[Span]| samples.iter().copied().min().unwrap_or(Span::ZERO);
        let mut sorted = long.to_vec();
        sorted.sort_unstable();
        let nearly_max =
            sorted.len().checked_sub(1).map_or(Span::ZERO, |last| sorted[last * 9 / 10]);
        let bounded = |span: Span| span.min(MAX_CORRECTION);
        Calibration {
            arrival: bounded(minimum(arrivals)),
            long_sleep: bounded(nearly_max),
            short_sleep: bounded(minimum(short)),
        }
    }

    /// Returns the arrival time of a packet that a thread found at `now`, after a sleep since `asleep_since`.
    pub fn arrival_time(&self, asleep_since: Time, now: Time) -> Time {
        Time(now.0.saturating_sub(self.arrival.nanos())).max(asleep_since).min(now)
    }

    /// Returns the sleep at `now` for a packet due at `due`; a thread that wakes early sleeps again.
    /// `long_sleep_target` is the due time of the last long step. A short step ends early only after a long one, so
    /// that a dense stream of packets costs no extra wake-ups.
    pub fn sleep_duration(&self, now: Time, due: Time, long_sleep_target: &mut Time) -> Duration {
        let remaining = due.since(now).nanos();
        let (long, short) =
            (self.long_sleep.nanos() + self.short_sleep.nanos(), self.short_sleep.nanos());
        Duration::from_nanos(if remaining > TWO_STEP_THRESHOLD.nanos() {
            *long_sleep_target = due;
            remaining - long
        } else if *long_sleep_target == due && remaining > short {
            remaining - short
        } else {
            remaining
        })
    }
}

/// Measures the wake-up latency of a direction before its start: timer sleeps, and packets sent to its device while it
/// waits for them.
///
/// The direction reads `device`, which has `address` in `namespace`. `prepare` sets the scheduler of the thread.
///
/// # Errors
/// Returns the error of the kernel.
pub(crate) fn measure_wakeups(
    namespace: &File,
    address: &DeviceAddress,
    device: &Arc<SyncDevice>,
    prepare: fn() -> bool,
) -> io::Result<Calibration> {
    let socket = namespace::run_in(namespace, || UdpSocket::bind((address.v4, 0)))?;
    let to = SocketAddr::from((address.peer_v4, DISCARD_PORT));
    let clock = EmulatorClock::start();
    device.set_nonblocking(true)?;
    std::thread::scope(|scope| {
        let forwarder = std::thread::Builder::new().name("rehearsal".to_owned());
        let forwarder = forwarder.spawn_scoped(scope, || -> io::Result<_> {
            prepare();
            clock::minimise_timer_slack()?;
            let (long, short) = measure_sleeps(&clock, device)?;
            // The sender starts after the measuring thread.
            let sender = scope.spawn(|| send_probes(&clock, &socket, to));
            let found = measure_arrivals(&clock, device)?;
            let sent =
                sender.join().unwrap_or_else(|_| Err(io::Error::other("the sender panicked")))?;
            Ok(Calibration::from_samples(&wakeup_delays(&sent, &found), &long, &short))
        })?;
        forwarder.join().unwrap_or_else(|_| Err(io::Error::other("the rehearsal panicked")))
    })
}

/// Returns the excess of long sleeps and of the short sleeps after them. A sleep that a packet ended is not counted.
fn measure_sleeps(
    clock: &EmulatorClock,
    device: &SyncDevice,
) -> io::Result<(Vec<Span>, Vec<Span>)> {
    let (mut long, mut short) = (Vec::new(), Vec::new());
    let mut buffer = vec![0; MAX_PACKET_BYTES];
    for _ in 0..ROUNDS {
        for (pause, samples) in [(LONG_SLEEP, &mut long), (SHORT_SLEEP, &mut short)] {
            while device.recv(&mut buffer).is_ok() {}
            let start = clock.now();
            if !clock::wait_readable(device, pause)? {
                let took = clock.now().since(start).nanos();
                samples.push(Span(took.saturating_sub(pause.as_nanos() as u64)));
            }
        }
    }
    Ok((long, short))
}

/// Sends numbered packets. Returns the times before and after each.
fn send_probes(
    clock: &EmulatorClock,
    socket: &UdpSocket,
    to: SocketAddr,
) -> io::Result<Vec<(Time, Time)>> {
    let mut sent = Vec::new();
    for round in 0..ROUNDS as u64 {
        std::thread::sleep(LONG_SLEEP);
        let before = clock.now();
        socket.send_to(&probe_payload(round), to)?;
        sent.push((before, clock.now()));
    }
    Ok(sent)
}

/// Returns the last bytes of a probe packet.
fn probe_payload(round: u64) -> [u8; 16] {
    let mut mark = *b"bentpipe\0\0\0\0\0\0\0\0";
    mark[8..].copy_from_slice(&round.to_be_bytes());
    mark
}

/// Returns the time at which the thread woke for each numbered packet.
fn measure_arrivals(clock: &EmulatorClock, device: &SyncDevice) -> io::Result<Vec<Option<Time>>> {
    let mut found = vec![None; ROUNDS];
    let mut buffer = vec![0; MAX_PACKET_BYTES];
    while found[ROUNDS - 1].is_none() {
        if !clock::wait_readable(device, PROBE_TIMEOUT)? {
            break;
        }
        let woken_at = clock.now();
        while let Ok(length) = device.recv(&mut buffer) {
            let packet = &buffer[..length];
            let round = (0..ROUNDS).find(|round| packet.ends_with(&probe_payload(*round as u64)));
            if let Some(round) = round {
                found[round] = Some(woken_at);
            }
        }
    }
    Ok(found)
}

/// Returns the delay from each packet in the device to its reader, less the minimum time of sending.
fn wakeup_delays(sent: &[(Time, Time)], found: &[Option<Time>]) -> Vec<Span> {
    let sending =
        sent.iter().map(|(before, after)| after.since(*before).nanos()).min().unwrap_or(0);
    sent.iter()
        .zip(found)
        .filter_map(|((before, _), woken_at)| {
            let took = (*woken_at)?.since(*before).nanos();
            Some(Span(took.saturating_sub(sending)))
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn us(count: u64) -> Span {
        Span(count * 1_000)
    }

    /// The lateness of a sleep on the modelled machine, from observations of an idle one.
    fn machine(pause: Duration, round: u64) -> Duration {
        let spread = Duration::from_micros(round * 7 % 40);
        if pause > Duration::from_millis(1) {
            Duration::from_micros(50) + spread
        } else {
            Duration::from_micros(14) + spread / 10
        }
    }

    fn samples(pause: Duration) -> Vec<Span> {
        (0..16).map(|round| Span(machine(pause, round).as_nanos() as u64)).collect()
    }

    fn measured() -> Calibration {
        let (long, short) = (Duration::from_millis(5), Duration::from_micros(150));
        Calibration::from_samples(&[us(31), us(24), us(90)], &samples(long), &samples(short))
    }

    /// Sleeps until `due`. Returns the end of the last step and the number of steps.
    fn sleep(calibration: &Calibration, mut now: Time, due: Time, round: u64) -> (Time, u32) {
        let (mut steps, mut aimed) = (0, Time::MAX);
        while now < due {
            let pause = calibration.sleep_duration(now, due, &mut aimed);
            now = Time(now.0 + (pause + machine(pause, round)).as_nanos() as u64);
            steps += 1;
        }
        (now, steps)
    }

    #[test]
    fn sleeps_are_never_early_and_less_late() {
        let (mut plain, mut calibrated) = (0, 0);
        for round in 0..1_000 {
            for left in [3_u64, 12, 15, 100, 190, 210, 400, 401, 5_000, 375_000] {
                let due = Time(1_000_000_000 + left * 1_000);
                let late = |calibration: &Calibration| {
                    let (end, steps) = sleep(calibration, Time(1_000_000_000), due, round);
                    assert!(end >= due && steps <= 3, "{left} us: {steps} steps");
                    end.since(due)
                };
                let (before, after) = (late(&Calibration::default()), late(&measured()));
                assert!(after <= before, "{left} us: {after:?} instead of {before:?}");
                // A dense stream has no correction.
                assert!(left > 400 || after == before, "{left} us");
                if left > 1_000 {
                    plain += before.nanos();
                    calibrated += after.nanos();
                }
            }
        }
        // The corrections remove 14 of 16 microseconds of a short sleep and all of a long one.
        assert!(calibrated * 10 < plain, "{calibrated} of {plain}");
    }

    #[test]
    fn corrections_are_bounded() {
        let slow = [us(3_000), us(20_000)];
        let calibration = Calibration::from_samples(&slow, &slow, &slow);
        assert_eq!(
            (calibration.arrival, calibration.long_sleep, calibration.short_sleep),
            (MAX_CORRECTION, MAX_CORRECTION, MAX_CORRECTION)
        );
        assert_eq!(Calibration::from_samples(&[], &[], &[]), Calibration::default());
    }

    #[test]
    fn an_arrival_is_never_stamped_before_the_sleep() {
        let calibration = measured();
        assert_eq!(calibration.arrival, us(24));
        let now = Time(1_000_000);
        assert_eq!(calibration.arrival_time(Time(0), now), Time(976_000));
        assert_eq!(calibration.arrival_time(Time(990_000), now), Time(990_000));
        // A thread that did not sleep.
        assert_eq!(calibration.arrival_time(now, now), now);
        assert_eq!(calibration.arrival_time(Time(0), Time(5)), Time(0));
    }
}
