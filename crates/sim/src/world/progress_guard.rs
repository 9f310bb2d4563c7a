//! Progress guard of virtual time. A run fails with the component's name if it requests a past deadline, repeats one
//! deadline, or wakes too often without work.

use units::Time;

/// The limit of wake-ups of one component at one instant. A component does all due work at once, so only other
/// components at zero link delay can cause another wake-up.
const MAX_WAKEUPS_PER_INSTANT: u32 = 10_000;
/// The limit of wake-ups without work per second and per connection of one node. One every microsecond is finer than
/// the timers of any system with a sender.
const MAX_IDLE_WAKEUPS_PER_SECOND: u64 = 1_000_000;
/// The limit of packets that one node sends per second: 600 Gb/s of full packets.
const MAX_PACKETS_PER_SECOND: u64 = 50_000_000;
/// The limit of link pushes at one instant. It exceeds the largest window that a plan allows.
pub const MAX_PUSHES_PER_INSTANT: usize = 4_000_000;

const SECOND_NS: u64 = 1_000_000_000;

/// The reason why virtual time does not advance.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NoProgress {
    /// The component requests a past deadline.
    PastDeadline,
    /// The component requests the present instant repeatedly.
    SameInstant,
    /// The component wakes up repeatedly without work.
    IdleWakeups,
    /// The component sends more packets than any link carries.
    PacketFlood,
    /// Packets circulate at zero delay.
    ZeroDelayLoop,
}

impl NoProgress {
    /// Returns the message for a request at `now` for `deadline`.
    pub fn describe(self, deadline: Time, now: Time) -> String {
        let (at, now) = (format_seconds(deadline), format_seconds(now));
        match self {
            NoProgress::PastDeadline => {
                format!("requests at {now} a wake-up at {at}, which has passed")
            }
            NoProgress::SameInstant => format!(
                "requests a wake-up at {at} repeatedly, {MAX_WAKEUPS_PER_INSTANT} times at that instant: \
                 time does not pass"
            ),
            NoProgress::IdleWakeups => format!(
                "requests more than {MAX_IDLE_WAKEUPS_PER_SECOND} wake-ups in the second before {now} and sends \
                 nothing"
            ),
            NoProgress::PacketFlood => {
                format!(
                    "has sent more than {MAX_PACKETS_PER_SECOND} packets in the second before {now}"
                )
            }
            NoProgress::ZeroDelayLoop => format!(
                "has carried more than {MAX_PUSHES_PER_INSTANT} packets at {now}: time does not pass (has the path \
                 neither rate nor delay?)"
            ),
        }
    }
}

/// Formats an instant with nanoseconds, which the format of [`Time`] omits.
pub fn format_seconds(at: Time) -> String {
    format!("{}.{:09} s", at.0 / SECOND_NS, at.0 % SECOND_NS)
}

/// The activity of one node in the current second.
#[derive(Clone, Copy, Debug, Default)]
struct ActivitySecond {
    number: u64,
    idle_wakeups: u64,
    sent_packets: u64,
}

/// The present instant, and the number of wake-ups of each component.
#[derive(Debug)]
pub struct ProgressGuard {
    now: Time,
    /// Wake-ups at this instant.
    wakeups_at_now: u32,
    /// Wake-ups of each component at this instant, counted above the limit for all.
    wakeups_by_component: Vec<u32>,
    /// Activity of hosts and proxies, by component.
    activity: Vec<ActivitySecond>,
}

impl ProgressGuard {
    /// Creates a guard over `components`. The first `nodes` of them can send packets.
    pub fn new(components: usize, nodes: usize) -> ProgressGuard {
        let activity = vec![ActivitySecond::default(); nodes];
        ProgressGuard {
            now: Time::ZERO,
            wakeups_at_now: 0,
            wakeups_by_component: vec![0; components],
            activity,
        }
    }

    /// Registers a wake-up of `component` at `at`.
    #[inline]
    pub fn on_wakeup(&mut self, at: Time, component: usize) -> Result<(), NoProgress> {
        if at > self.now {
            self.now = at;
            self.wakeups_at_now = 0;
            return Ok(());
        }
        self.wakeups_at_now += 1;
        if at == self.now && self.wakeups_at_now < MAX_WAKEUPS_PER_INSTANT {
            return Ok(());
        }
        self.count_wakeup(at, component)
    }

    /// Returns the present instant.
    pub fn now(&self) -> Time {
        self.now
    }

    #[cold]
    fn count_wakeup(&mut self, at: Time, component: usize) -> Result<(), NoProgress> {
        if at < self.now {
            return Err(NoProgress::PastDeadline);
        }
        if self.wakeups_at_now == MAX_WAKEUPS_PER_INSTANT {
            self.wakeups_by_component.fill(0);
        }
        self.wakeups_by_component[component] += 1;
        if self.wakeups_by_component[component] > MAX_WAKEUPS_PER_INSTANT {
            Err(NoProgress::SameInstant)
        } else {
            Ok(())
        }
    }

    /// Registers a wake-up of `component` without packets.
    #[inline]
    pub fn on_idle_wakeup(
        &mut self,
        component: usize,
        connections: impl FnOnce() -> u32,
    ) -> Result<(), NoProgress> {
        let activity = self.current_second(component);
        activity.idle_wakeups += 1;
        if activity.idle_wakeups <= MAX_IDLE_WAKEUPS_PER_SECOND
            || activity.idle_wakeups <= MAX_IDLE_WAKEUPS_PER_SECOND * u64::from(connections())
        {
            return Ok(());
        }
        Err(NoProgress::IdleWakeups)
    }

    /// Registers `packets` sent by `component`.
    #[inline]
    pub fn on_packets_sent(&mut self, component: usize, packets: usize) -> Result<(), NoProgress> {
        let activity = self.current_second(component);
        activity.sent_packets += packets as u64;
        if activity.sent_packets > MAX_PACKETS_PER_SECOND {
            Err(NoProgress::PacketFlood)
        } else {
            Ok(())
        }
    }

    #[inline]
    fn current_second(&mut self, component: usize) -> &mut ActivitySecond {
        let number = self.now.0 / SECOND_NS;
        let activity = &mut self.activity[component];
        if activity.number != number {
            *activity = ActivitySecond { number, ..ActivitySecond::default() };
        }
        activity
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_repeated_deadline_is_no_progress() {
        let mut watch = ProgressGuard::new(3, 0);
        for _ in 0..MAX_WAKEUPS_PER_INSTANT {
            assert_eq!(watch.on_wakeup(Time(5), 1), Ok(()));
            assert_eq!(watch.on_wakeup(Time(5), 0), Ok(()));
        }
        let stuck =
            (0..2 * MAX_WAKEUPS_PER_INSTANT).find_map(|_| watch.on_wakeup(Time(5), 1).err());
        assert_eq!(stuck, Some(NoProgress::SameInstant));
        assert_eq!(watch.on_wakeup(Time(5), 2), Ok(()), "another has come for the first time");
        assert_eq!(watch.on_wakeup(Time(6), 1), Ok(()), "time has passed");
        assert_eq!(watch.on_wakeup(Time(5), 2), Err(NoProgress::PastDeadline));
    }

    #[test]
    fn idle_wakeups_and_packets_are_limited_per_second() {
        let mut watch = ProgressGuard::new(1, 1);
        for second in 0..3 {
            assert_eq!(watch.on_wakeup(Time(second * SECOND_NS + 1), 0), Ok(()));
            for _ in 0..MAX_IDLE_WAKEUPS_PER_SECOND {
                assert_eq!(watch.on_idle_wakeup(0, || 1), Ok(()));
            }
        }
        assert_eq!(
            watch.on_idle_wakeup(0, || 2),
            Ok(()),
            "two connections have twice as many timers"
        );
        assert_eq!(watch.on_idle_wakeup(0, || 1), Err(NoProgress::IdleWakeups));
        assert_eq!(watch.on_packets_sent(0, MAX_PACKETS_PER_SECOND as usize), Ok(()));
        assert_eq!(watch.on_packets_sent(0, 1), Err(NoProgress::PacketFlood));
    }

    #[test]
    fn messages_format_instants_with_nanoseconds() {
        let description = NoProgress::PastDeadline.describe(Time(999_999_999), Time(1_000_000_000));
        assert_eq!(
            description,
            "requests at 1.000000000 s a wake-up at 0.999999999 s, which has passed"
        );
    }
}
