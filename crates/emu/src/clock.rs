//! The real clock in the units of the stages.

use std::io;
use std::os::fd::AsFd;
use std::time::{Duration, Instant};

use nix::poll::{PollFd, PollFlags, ppoll};
use nix::sys::time::TimeSpec;
use nix::time::{ClockId, clock_gettime};
use units::Time;

/// Time since the start of the emulator.
#[derive(Clone, Copy, Debug)]
pub struct EmulatorClock {
    start: Instant,
    /// The monotonic clock of the machine at the start, in ns. It is the same in all namespaces.
    pub monotonic_ns: u64,
}

impl EmulatorClock {
    /// Starts a clock at 0.
    #[expect(clippy::disallowed_methods, reason = "the emulator reads the real clock here")]
    pub fn start() -> EmulatorClock {
        EmulatorClock {
            start: Instant::now(),
            monotonic_ns: read_clock_ns(ClockId::CLOCK_MONOTONIC),
        }
    }

    /// Returns the time since the start.
    pub fn now(&self) -> Time {
        Time(self.start.elapsed().as_nanos() as u64)
    }
}

/// Sets the timer slack of the calling thread to 1 ns. The default delays wake-ups by up to 50 microseconds (prctl(2)).
pub fn minimise_timer_slack() -> io::Result<()> {
    Ok(nix::sys::prctl::set_timerslack(1)?)
}

/// Sleeps for `pause`, or until `device` is readable. Returns whether it is readable.
pub fn wait_readable(device: &impl AsFd, pause: Duration) -> io::Result<bool> {
    let mut ready = [PollFd::new(device.as_fd(), PollFlags::POLLIN)];
    match ppoll(&mut ready, Some(TimeSpec::from_duration(pause)), None) {
        Ok(count) => Ok(count > 0),
        Err(nix::errno::Errno::EINTR) => Ok(false),
        Err(error) => Err(error.into()),
    }
}

/// Sleeps like [`wait_readable`], or until `pipe` is readable. Returns which of the two are readable.
pub fn wait_either_readable(
    device: &impl AsFd,
    pipe: &impl AsFd,
    pause: Duration,
) -> io::Result<[bool; 2]> {
    let mut ready = [device.as_fd(), pipe.as_fd()].map(|fd| PollFd::new(fd, PollFlags::POLLIN));
    match ppoll(&mut ready, Some(TimeSpec::from_duration(pause)), None) {
        Ok(_) => Ok(ready.map(|polled| polled.revents().is_some_and(|found| !found.is_empty()))),
        Err(nix::errno::Errno::EINTR) => Ok([false; 2]),
        Err(error) => Err(error.into()),
    }
}

/// Returns the time of a kernel clock in ns; 0 if the kernel does not have this clock.
pub fn read_clock_ns(clock: ClockId) -> u64 {
    clock_gettime(clock)
        .map_or(0, |time| time.tv_sec() as u64 * 1_000_000_000 + time.tv_nsec() as u64)
}
