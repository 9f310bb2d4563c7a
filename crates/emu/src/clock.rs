//! The real clock, in the units of the stages.

use std::io;
use std::os::fd::AsFd;
use std::time::{Duration, Instant};

use nix::poll::{PollFd, PollFlags, ppoll};
use nix::sys::time::TimeSpec;
use nix::time::{ClockId, clock_gettime};
use units::Time;

/// Time since the emulator began.
#[derive(Clone, Copy, Debug)]
pub struct Clock {
    start: Instant,
    /// What the machine's monotonic clock showed then, ns: the same in every namespace.
    pub monotonic_ns: u64,
}

impl Clock {
    /// A clock that shows 0 now.
    #[expect(clippy::disallowed_methods, reason = "the emulator is where the real clock comes in")]
    pub fn start() -> Clock {
        Clock { start: Instant::now(), monotonic_ns: read(ClockId::CLOCK_MONOTONIC) }
    }

    /// The time.
    pub fn now(&self) -> Time {
        Time(self.start.elapsed().as_nanos() as u64)
    }
}

/// Lets the calling thread wake when it asked to: otherwise it may be 50 microseconds later (prctl(2)).
pub fn sharpen() -> io::Result<()> {
    Ok(nix::sys::prctl::set_timerslack(1)?)
}

/// Sleeps for `pause`, or until `device` has something to read: then true.
pub fn readable(device: &impl AsFd, pause: Duration) -> io::Result<bool> {
    let mut ready = [PollFd::new(device.as_fd(), PollFlags::POLLIN)];
    match ppoll(&mut ready, Some(TimeSpec::from_duration(pause)), None) {
        Ok(count) => Ok(count > 0),
        Err(nix::errno::Errno::EINTR) => Ok(false),
        Err(error) => Err(error.into()),
    }
}

/// As [`readable`], or until `bell` rings: which of the two have something to read.
pub fn rung(device: &impl AsFd, bell: &impl AsFd, pause: Duration) -> io::Result<[bool; 2]> {
    let mut ready = [device.as_fd(), bell.as_fd()].map(|fd| PollFd::new(fd, PollFlags::POLLIN));
    match ppoll(&mut ready, Some(TimeSpec::from_duration(pause)), None) {
        Ok(_) => Ok(ready.map(|one| one.revents().is_some_and(|found| !found.is_empty()))),
        Err(nix::errno::Errno::EINTR) => Ok([false; 2]),
        Err(error) => Err(error.into()),
    }
}

/// What a clock of the kernel shows, ns; 0 if it does not have it.
pub fn read(clock: ClockId) -> u64 {
    clock_gettime(clock)
        .map_or(0, |time| time.tv_sec() as u64 * 1_000_000_000 + time.tv_nsec() as u64)
}
