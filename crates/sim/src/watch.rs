//! Virtual time must pass. A component that asks for an instant gone by, for the same instant again and
//! again, or for more instants than any work explains, ends the run and is named.

use units::Time;

/// Wake-ups of one component at one instant. It does all its work that is due when it is woken, so that only
/// what other components do at the same instant, over lines without length, gives a reason for another.
const AT_ONE_INSTANT: u32 = 10_000;
/// Wake-ups for nothing in a second of the run, for each connection of one end: one every microsecond, which is
/// finer than the timers of any system that a sender runs on.
const FOR_NOTHING: u64 = 1_000_000;
/// Packets that one end sends in a second of the run: 600 Gb/s of full packets.
const SENT: u64 = 50_000_000;
/// Packets that move at one instant: more than the largest window that a plan allows holds.
pub const MOVED: usize = 4_000_000;

const SECOND_NS: u64 = 1_000_000_000;

/// How a component does not progress.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// It asked for an instant that has passed.
    Past,
    /// It asks for the present instant again and again.
    Stuck,
    /// It is woken and woken and has nothing to do.
    Idle,
    /// It sends more than any link carries.
    Flood,
    /// Packets go to and fro without time passing.
    Instant,
}

impl Fault {
    /// What is wrong with asking for `at` at `now`.
    pub fn text(self, at: Time, now: Time) -> String {
        let (at, now) = (seconds(at), seconds(now));
        match self {
            Fault::Past => format!("asks at {now} to be woken at {at}, which has passed"),
            Fault::Stuck => format!(
                "asks to be woken at {at} again and again, {AT_ONE_INSTANT} times at that instant: \
                 time does not pass"
            ),
            Fault::Idle => format!(
                "asks to be woken more than {FOR_NOTHING} times in the second before {now} and sends \
                 nothing"
            ),
            Fault::Flood => {
                format!("has sent more than {SENT} packets in the second before {now}")
            }
            Fault::Instant => format!(
                "has carried more than {MOVED} packets at {now}: time does not pass (has the path \
                 neither rate nor delay?)"
            ),
        }
    }
}

/// To the nanosecond, which [`Time`]'s own form leaves out.
pub fn seconds(at: Time) -> String {
    format!("{}.{:09} s", at.0 / SECOND_NS, at.0 % SECOND_NS)
}

/// What one end did in the second of the run that is under way.
#[derive(Clone, Copy, Debug, Default)]
struct Second {
    number: u64,
    idle: u64,
    sent: u64,
}

/// The present, and who is woken in it how often.
#[derive(Debug)]
pub struct Watch {
    now: Time,
    /// Wake-ups at this instant.
    woken: u32,
    /// The same of each component, counted once they are many.
    each: Vec<u32>,
    /// By component: of hosts and proxies.
    ends: Vec<Second>,
}

impl Watch {
    /// A watch over `components`; those that send and receive are among the first `ends`.
    pub fn new(components: usize, ends: usize) -> Watch {
        let ends = vec![Second::default(); ends];
        Watch { now: Time::ZERO, woken: 0, each: vec![0; components], ends }
    }

    /// `component` is woken at `at`.
    #[inline]
    pub fn woken(&mut self, at: Time, component: usize) -> Result<(), Fault> {
        if at > self.now {
            self.now = at;
            self.woken = 0;
            return Ok(());
        }
        self.woken += 1;
        if at == self.now && self.woken < AT_ONE_INSTANT {
            return Ok(());
        }
        self.count(at, component)
    }

    /// The present.
    pub fn now(&self) -> Time {
        self.now
    }

    #[cold]
    fn count(&mut self, at: Time, component: usize) -> Result<(), Fault> {
        if at < self.now {
            return Err(Fault::Past);
        }
        if self.woken == AT_ONE_INSTANT {
            self.each.fill(0);
        }
        self.each[component] += 1;
        if self.each[component] > AT_ONE_INSTANT { Err(Fault::Stuck) } else { Ok(()) }
    }

    /// The component of this number was woken and sent nothing.
    #[inline]
    pub fn idled(&mut self, end: usize, connections: impl FnOnce() -> u32) -> Result<(), Fault> {
        let second = self.second(end);
        second.idle += 1;
        if second.idle <= FOR_NOTHING || second.idle <= FOR_NOTHING * u64::from(connections()) {
            return Ok(());
        }
        Err(Fault::Idle)
    }

    /// The component of this number sent `packets`.
    #[inline]
    pub fn sent(&mut self, end: usize, packets: usize) -> Result<(), Fault> {
        let second = self.second(end);
        second.sent += packets as u64;
        if second.sent > SENT { Err(Fault::Flood) } else { Ok(()) }
    }

    #[inline]
    fn second(&mut self, end: usize) -> &mut Second {
        let number = self.now.0 / SECOND_NS;
        let second = &mut self.ends[end];
        if second.number != number {
            *second = Second { number, ..Second::default() };
        }
        second
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_who_comes_again_and_again_is_stuck() {
        let mut watch = Watch::new(3, 0);
        for _ in 0..AT_ONE_INSTANT {
            assert_eq!(watch.woken(Time(5), 1), Ok(()));
            assert_eq!(watch.woken(Time(5), 0), Ok(()));
        }
        let stuck = (0..2 * AT_ONE_INSTANT).find_map(|_| watch.woken(Time(5), 1).err());
        assert_eq!(stuck, Some(Fault::Stuck));
        assert_eq!(watch.woken(Time(5), 2), Ok(()), "another has come for the first time");
        assert_eq!(watch.woken(Time(6), 1), Ok(()), "time has passed");
        assert_eq!(watch.woken(Time(5), 2), Err(Fault::Past));
    }

    #[test]
    fn who_is_woken_for_nothing_is_counted_by_the_second() {
        let mut watch = Watch::new(1, 1);
        for second in 0..3 {
            assert_eq!(watch.woken(Time(second * SECOND_NS + 1), 0), Ok(()));
            for _ in 0..FOR_NOTHING {
                assert_eq!(watch.idled(0, || 1), Ok(()));
            }
        }
        assert_eq!(watch.idled(0, || 2), Ok(()), "two connections have twice as many timers");
        assert_eq!(watch.idled(0, || 1), Err(Fault::Idle));
        assert_eq!(watch.sent(0, SENT as usize), Ok(()));
        assert_eq!(watch.sent(0, 1), Err(Fault::Flood));
    }

    #[test]
    fn messages_say_instants_to_the_nanosecond() {
        let said = Fault::Past.text(Time(999_999_999), Time(1_000_000_000));
        assert_eq!(said, "asks at 1.000000000 s to be woken at 0.999999999 s, which has passed");
    }
}
