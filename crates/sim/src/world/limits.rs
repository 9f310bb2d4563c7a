//! Limits of a run: events and memory. A run that reaches one fails; a limit never changes results.

use units::Time;

use super::progress_guard::format_seconds;

/// The turns of the loop between two checks. A check takes about as long as 20 turns.
const TURNS_PER_CHECK: u32 = 16_384;
/// The turns of the loop between two checks for each component, as a check visits all of them.
const TURNS_PER_COMPONENT: u32 = 8;

/// The limits of a run.
#[derive(Clone, Copy, Debug)]
pub struct RunLimits {
    /// The maximum number of events.
    pub events: u64,
    /// The maximum growth of the used memory.
    pub memory_bytes: u64,
    /// Returns the memory that the process uses now.
    pub memory_in_use: fn() -> u64,
}

impl RunLimits {
    /// No limits.
    pub const NONE: RunLimits =
        RunLimits { events: u64::MAX, memory_bytes: u64::MAX, memory_in_use: || 0 };
}

/// A reached limit, with its value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ReachedLimit {
    Events(u64),
    Memory(u64),
}

impl ReachedLimit {
    /// Returns the message for a limit that was reached at `now` of a run until `end`. `cause` names the main part.
    pub fn describe(self, now: Time, end: Time, cause: &str) -> String {
        let (limit, key) = match self {
            ReachedLimit::Events(events) => (format!("{events} events"), "limits.events"),
            ReachedLimit::Memory(bytes) => {
                (format!("{} MB of memory", bytes / 1_000_000), "limits.memory")
            }
        };
        let (now, end) = (format_seconds(now), format_seconds(end));
        format!(
            "the run reached its limit of {limit} at {now} of {end}: {cause}. A larger {key} raises the limit"
        )
    }
}

/// Counts turns of the loop, and compares events and memory with the limits now and then.
#[derive(Debug)]
pub(super) struct LimitGuard {
    limits: RunLimits,
    /// The memory in use before the run.
    memory_before: u64,
    turns_until_check: u32,
}

impl LimitGuard {
    /// Creates a guard. Its first check follows the first turn.
    pub fn new(limits: RunLimits, memory_before: u64) -> LimitGuard {
        LimitGuard { limits, memory_before, turns_until_check: 1 }
    }

    /// Counts a turn of the loop. Returns whether a check is due.
    #[inline]
    pub fn is_check_due(&mut self) -> bool {
        self.turns_until_check -= 1;
        self.turns_until_check == 0
    }

    /// Compares `events` with the limits, and schedules the next check of `components`. The next check precedes the
    /// turn that can reach the limit of events, if each turn has one event.
    pub fn check(&mut self, events: u64, components: usize) -> Result<(), ReachedLimit> {
        let remaining = self.limits.events.saturating_sub(events);
        let most = (components as u32).saturating_mul(TURNS_PER_COMPONENT).max(TURNS_PER_CHECK);
        self.turns_until_check = remaining.clamp(1, most.into()) as u32;
        if remaining == 0 {
            return Err(ReachedLimit::Events(self.limits.events));
        }
        let grown = (self.limits.memory_in_use)().saturating_sub(self.memory_before);
        if grown > self.limits.memory_bytes {
            return Err(ReachedLimit::Memory(self.limits.memory_bytes));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn guard(events: u64, memory_bytes: u64) -> LimitGuard {
        LimitGuard::new(RunLimits { events, memory_bytes, memory_in_use: || 1000 }, 100)
    }

    #[test]
    fn the_first_turn_is_checked_and_then_one_in_many() {
        let mut guard = guard(u64::MAX, 900);
        assert!(guard.is_check_due());
        assert_eq!(guard.check(1, 2), Ok(()));
        assert_eq!((1..).find(|_| guard.is_check_due()), Some(TURNS_PER_CHECK));
        assert_eq!(guard.check(1, 100_000), Ok(()));
        assert_eq!((1..).find(|_| guard.is_check_due()), Some(100_000 * TURNS_PER_COMPONENT));
    }

    #[test]
    fn a_limit_of_events_is_checked_when_it_can_be_reached() {
        let mut guard = guard(1000, 900);
        assert!(guard.is_check_due());
        assert_eq!(guard.check(1, 2), Ok(()));
        assert_eq!((1..).find(|_| guard.is_check_due()), Some(999));
        assert_eq!(guard.check(1000, 2), Err(ReachedLimit::Events(1000)));
    }

    #[test]
    fn memory_counts_from_the_start_of_the_run() {
        assert_eq!(guard(u64::MAX, 900).check(1, 2), Ok(()));
        assert_eq!(guard(u64::MAX, 899).check(1, 2), Err(ReachedLimit::Memory(899)));
    }

    #[test]
    fn a_message_has_limit_instant_cause_and_setting() {
        let (now, end) = (Time(1_500_000_000), Time(2_000_000_000));
        assert_eq!(
            ReachedLimit::Memory(4_000_000_000).describe(now, end, "samples take 3 GB"),
            "the run reached its limit of 4000 MB of memory at 1.500000000 s of 2.000000000 s: samples take 3 GB. \
             A larger limits.memory raises the limit"
        );
    }
}
