//! Fifth proof: both directions of a link are one state machine. What its stages tell each other is an event in order
//! of time, which a late driver does not change; without it a link is two lines.

use std::sync::{Arc, Mutex};

use path::{
    Change, Counters, Cx, DropTail, Feedback, InFlight, Line, Link, Output, Place, RateService,
    Stage, StageSpec, Told, Transmitter, WireSpec,
};
use proptest::prelude::*;
use units::{Direction, Packet, Random, Rate, Span, Time};

use crate::common::packet;
use crate::properties::{arrivals, stages};

const SIDES: [Direction; 2] = [Direction::Up, Direction::Down];

type Arrivals = Vec<(Time, Packet)>;

/// Everything to be seen from outside: per direction what left and was counted, and what was told.
type Seen = ([(Arrivals, Vec<(Time, Packet, path::Cause)>, Counters); 2], Told);

/// Runs both directions' arrivals; a wake-up comes up to `lateness` after it was due, and only then are the packets
/// that arrived in the meantime handed over, in order of time, with the stamps of their arrival.
fn run(mut link: Link, arrivals: &[Arrivals; 2], lateness: Span) -> Seen {
    let mut all: Vec<_> = SIDES
        .into_iter()
        .flat_map(|side| arrivals[side as usize].iter().map(move |(at, p)| (*at, side, *p)))
        .collect();
    all.sort_by_key(|(at, side, _)| (*at, *side));
    let (mut rest, mut out) = (all.into_iter().peekable(), <[Output; 2]>::default());
    let mut random = Random::named(1, "driver", "lateness");
    loop {
        let arrival = rest.peek().map_or(Time::MAX, |(at, _, _)| *at);
        let due = link.poll_at().min(arrival);
        if due == Time::MAX {
            let [up, down] = out;
            let count = |side| *link.line(side).counters();
            return (
                [
                    (up.delivered, up.dropped, count(Direction::Up)),
                    (down.delivered, down.dropped, count(Direction::Down)),
                ],
                link.told(),
            );
        }
        let now = due + random.span_below(lateness);
        while let Some((at, side, packet)) = rest.next_if(|(at, _, _)| *at <= now) {
            link.push(side, at, packet, &mut out);
        }
        link.poll(now, &mut out);
    }
}

fn build(specs: &[Vec<StageSpec>; 2], seed: u64) -> [Line; 2] {
    let name = |side| if side == 0 { "radio.up" } else { "radio.down" };
    [0, 1].map(|side| Line::build(&specs[side], name(side), seed).unwrap())
}

/// A line as a stage.
struct Within(Line, Output);

impl Within {
    fn pass(&mut self, cx: &mut Cx) {
        self.1.delivered.drain(..).for_each(|(due, packet)| cx.emit(due, packet));
        self.1.dropped.drain(..).for_each(|(due, packet, cause)| cx.drop(due, packet, cause));
    }
}

impl Stage for Within {
    fn push(&mut self, due: Time, packet: Packet, cx: &mut Cx) {
        self.0.push(due, packet, &mut self.1);
        self.pass(cx);
    }
    fn poll(&mut self, now: Time, cx: &mut Cx) {
        self.0.poll(now, &mut self.1);
        self.pass(cx);
    }
    fn poll_at(&self) -> Time {
        self.0.poll_at()
    }
}

/// Lets as many packets out as it has heard of, and some more; the newest first, so that what is heard at another
/// instant changes the order.
struct Window(usize, Vec<Packet>);

impl Window {
    fn work(&mut self, due: Time, cx: &mut Cx) {
        while self.0 > 0
            && let Some(packet) = self.1.pop()
        {
            self.0 -= 1;
            cx.emit(due, packet);
        }
    }
}

impl Stage for Window {
    fn push(&mut self, due: Time, packet: Packet, cx: &mut Cx) {
        self.1.push(packet);
        self.work(due, cx);
    }
    fn poll(&mut self, _: Time, _: &mut Cx) {}
    fn poll_at(&self) -> Time {
        Time::MAX
    }
    fn feedback(&mut self, due: Time, _: &Feedback, cx: &mut Cx) {
        self.0 += 1;
        self.work(due, cx);
    }
}

fn heard(number: u32) -> Feedback {
    Feedback::Attempt { user: 0, number: number.into(), decoded: true }
}

/// Tells of every packet that passes.
struct Witness;

impl Stage for Witness {
    fn push(&mut self, due: Time, packet: Packet, cx: &mut Cx) {
        cx.tell(due, heard(packet.handle));
        cx.emit(due, packet);
    }
    fn poll(&mut self, _: Time, _: &mut Cx) {}
    fn poll_at(&self) -> Time {
        Time::MAX
    }
}

/// In each direction a window, a rate, drawn stages and a witness at the far end, which tells the windows of both.
fn radio(specs: &[Vec<StageSpec>; 2], delays: [u64; 4], loss: f64, seed: u64) -> Link {
    let [up, down] = build(specs, seed).map(|line| {
        let rate = Transmitter::new(DropTail::new(None), RateService::new(Rate(20_000_000)));
        Line::of(vec![
            Box::new(Window(10, Vec::new())),
            Box::new(rate),
            Box::new(Within(line, Output::default())),
            Box::new(Witness),
        ])
    });
    let mut link = Link::of(up, down);
    for (number, delay) in delays.into_iter().enumerate() {
        let from = Place { direction: SIDES[number / 2], stage: 3 };
        let to = Place { direction: SIDES[number % 2], stage: 0 };
        let random = Random::named(seed, "radio", &format!("feedback.{number}"));
        link.wire(WireSpec { from, to, delay: Span(delay), loss }, random);
    }
    // In the middle both rates lose what waits for them.
    for direction in SIDES {
        let lost = Change::InFlight(InFlight::Lost);
        link.change(Place { direction, stage: 1 }, Time(30_000_000), &lost);
    }
    link
}

fn both<T: std::fmt::Debug>(one: impl Strategy<Value = T>) -> impl Strategy<Value = [T; 2]> {
    prop::array::uniform2(one)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(150))]

    #[test]
    fn lateness_changes_nothing(
        specs in both(prop::collection::vec(stages(), 0..4)), arrivals in both(arrivals()),
        delays in prop::array::uniform4(1u64..20_000_000), loss in 0.0..0.5, seed: u64,
    ) {
        let link = || radio(&specs, delays, loss, seed);
        let exact = run(link(), &arrivals, Span(1));
        prop_assert_eq!(&run(link(), &arrivals, Span::from_millis(30)), &exact);
        // Also one that comes only once, after everything.
        prop_assert_eq!(&run(link(), &arrivals, Span(u64::MAX / 2)), &exact);
    }

    #[test]
    fn without_feedback_a_link_is_two_lines(
        specs in both(prop::collection::vec(stages(), 1..5)), arrivals in both(arrivals()),
        seed: u64, late: bool,
    ) {
        let mut expected = Vec::new();
        for (mut line, arrivals) in build(&specs, seed).into_iter().zip(&arrivals) {
            let mut out = Output::default();
            for (at, packet) in arrivals {
                line.push(*at, *packet, &mut out);
            }
            while line.poll_at() != Time::MAX {
                line.poll(line.poll_at(), &mut out);
            }
            expected.push((out.delivered, out.dropped, *line.counters()));
        }
        let link = || {
            let [up, down] = build(&specs, seed);
            Link::of(up, down)
        };
        let lateness = if late { Span::from_millis(30) } else { Span(1) };
        let (seen, told) = run(link(), &arrivals, lateness);
        prop_assert_eq!(&seen[..], &expected[..]);
        prop_assert_eq!(told, Told::default());
        // Nor do wires change anything on which nothing is told.
        let mut wired = link();
        for (from, to) in [(SIDES[0], SIDES[1]), (SIDES[1], SIDES[1])] {
            let [from, to] = [from, to].map(|direction| Place { direction, stage: 0 });
            wired.wire(WireSpec { from, to, delay: Span(1), loss: 0.0 }, Random::named(1, "a", "b"));
        }
        prop_assert_eq!(&run(wired, &arrivals, lateness).0[..], &expected[..]);
    }
}

/// Notes all that happens to it; 10 ns after a packet it works, and each packet is told of.
struct Diary(&'static str, Arc<Mutex<Vec<String>>>, Time);

impl Diary {
    fn note(&self, at: Time, what: &str) {
        self.1.lock().unwrap().push(format!("{} {} {what}", at.nanos(), self.0));
    }
}

impl Stage for Diary {
    fn push(&mut self, due: Time, packet: Packet, cx: &mut Cx) {
        self.note(due, "takes");
        self.2 = due + Span(10);
        cx.tell(due, heard(packet.handle));
        cx.emit(due, packet);
    }
    fn poll(&mut self, _: Time, _: &mut Cx) {
        self.note(self.2, "works");
        self.2 = Time::MAX;
    }
    fn poll_at(&self) -> Time {
        self.2
    }
    fn change(&mut self, due: Time, _: &Change, _: &mut Cx) {
        self.note(due, "changes");
    }
    fn feedback(&mut self, due: Time, _: &Feedback, _: &mut Cx) {
        self.note(due, "hears");
    }
}

#[test]
fn the_order_within_an_instant_is_the_one_that_is_promised() {
    let diary = Arc::default();
    let line = |name| Line::of(vec![Box::new(Diary(name, Arc::clone(&diary), Time::MAX))]);
    let mut link = Link::of(line("up"), line("down"));
    let at = |direction| Place { direction, stage: 0 };
    for (from, to) in [(Direction::Up, Direction::Down), (Direction::Down, Direction::Up)] {
        let wire = WireSpec { from: at(from), to: at(to), delay: Span(10), loss: 0.0 };
        link.wire(wire, Random::named(1, "test", "feedback"));
    }
    let mut out = Default::default();
    for direction in SIDES {
        link.change(at(direction), Time(10), &Change::Loss(0.0));
        link.push(direction, Time(0), packet(0, 1), &mut out);
    }
    for direction in [Direction::Down, Direction::Up] {
        link.push(direction, Time(10), packet(1, 1), &mut out);
    }
    link.poll(Time::MAX, &mut out);
    let instants = [
        "0 up takes, 0 down takes",
        "10 down changes, 10 down hears, 10 up changes, 10 up hears, 10 up works, 10 down works",
        "10 down takes, 10 up takes",
        "20 up hears, 20 down hears, 20 up works, 20 down works",
    ];
    assert_eq!(diary.lock().unwrap().join(", "), instants.join(", "));
    assert_eq!((link.told(), link.poll_at()), (Told { sent: 4, lost: 0 }, Time::MAX));
}

#[test]
#[should_panic(expected = "feedback takes time")]
fn feedback_without_delay_is_refused() {
    let mut link = Link::of(Line::of(vec![Box::new(Witness)]), Line::of(Vec::new()));
    let place = Place { direction: Direction::Up, stage: 0 };
    let wire = WireSpec { from: place, to: place, delay: Span::ZERO, loss: 0.0 };
    link.wire(wire, Random::named(1, "test", "feedback"));
}
