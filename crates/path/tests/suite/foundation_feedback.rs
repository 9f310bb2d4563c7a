//! Fifth proof: what the stages of a line tell each other is an event in order of time, which a late driver does not
//! change.

use std::sync::{Arc, Mutex};

use path::{
    Change, Counters, Cx, DropTail, Feedback, FeedbackSpec, InFlight, Line, Output, RateService,
    Stage, StageSpec, Told, Transmitter, Wire,
};
use proptest::prelude::*;
use units::{Packet, RandomStream, Rate, Span, Time};

use crate::common::packet;
use crate::properties::{arrivals, stages};

type Arrivals = Vec<(Time, Packet)>;

/// Everything to be seen from outside: what left and was counted, and what was told.
type Seen = (Arrivals, Vec<(Time, Packet, path::Cause)>, Counters, Told);

/// Runs all arrivals; a wake-up comes up to `lateness` after it was due, and only then are the packets that arrived in
/// the meantime handed over, with the stamps of their arrival.
fn run(mut line: Line, arrivals: &Arrivals, lateness: Span) -> Seen {
    let (mut rest, mut out) = (arrivals.iter().copied().peekable(), Output::default());
    let mut random = RandomStream::named(1, "driver", "lateness");
    loop {
        let due = line.poll_at().min(rest.peek().map_or(Time::MAX, |(at, _)| *at));
        if due == Time::MAX {
            return (out.delivered, out.dropped, *line.counters(), line.told());
        }
        let now = due + random.span_below(lateness);
        while let Some((at, packet)) = rest.next_if(|(at, _)| *at <= now) {
            line.push(at, packet, &mut out);
        }
        line.poll(now, &mut out);
    }
}

fn build(specs: &[StageSpec], seed: u64) -> Line {
    Line::build(specs, "radio.up", seed).unwrap()
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

/// A window, a rate, drawn stages and a witness, twice; each witness tells both windows.
fn radio(specs: &[Vec<StageSpec>; 2], delays: [u64; 4], loss: f64, seed: u64) -> Line {
    let half = |specs: &Vec<StageSpec>| -> [Box<dyn Stage>; 4] {
        let rate = Transmitter::new(DropTail::new(None), RateService::new(Rate(20_000_000)));
        let within = Within(build(specs, seed), Output::default());
        [Box::new(Window(10, Vec::new())), Box::new(rate), Box::new(within), Box::new(Witness)]
    };
    let mut line = Line::of(specs.iter().flat_map(half).collect());
    for (number, delay_ns) in delays.into_iter().enumerate() {
        let (from, to) = (3 + 4 * (number / 2), 4 * (number % 2));
        let random = RandomStream::named(seed, "radio", &format!("feedback.{number}"));
        line.wire(Wire { from, to, spec: FeedbackSpec { delay_ns, loss } }, random);
    }
    // In the middle both rates lose what waits for them.
    for index in [1, 5] {
        line.change(Time(30_000_000), index, &Change::InFlight(InFlight::Lost));
    }
    line
}

fn tells(stage: &StageSpec) -> bool {
    matches!(stage, StageSpec::Radio(_) | StageSpec::Nr(_))
}

const AT_ONCE: FeedbackSpec = FeedbackSpec { delay_ns: 1, loss: 0.0 };

proptest! {
    #![proptest_config(ProptestConfig::with_cases(150))]

    #[test]
    fn lateness_changes_nothing(
        specs in prop::array::uniform2(prop::collection::vec(stages(), 0..4)), arrivals in arrivals(),
        delays in prop::array::uniform4(1u64..20_000_000), loss in 0.0..0.5, seed: u64,
    ) {
        let line = || radio(&specs, delays, loss, seed);
        let exact = run(line(), &arrivals, Span(1));
        prop_assert_eq!(&run(line(), &arrivals, Span::from_millis(30)), &exact);
        // Also one that comes only once, after everything.
        prop_assert_eq!(&run(line(), &arrivals, Span(u64::MAX / 2)), &exact);
    }

    #[test]
    fn wires_on_which_nothing_is_told_change_nothing(
        specs in prop::collection::vec(stages().prop_filter("tells", |s| !tells(s)), 1..5),
        arrivals in arrivals(), seed: u64, late: bool,
    ) {
        let lateness = if late { Span::from_millis(30) } else { Span(1) };
        let expected = run(build(&specs, seed), &arrivals, lateness);
        prop_assert_eq!(expected.3, Told::default());
        let mut wired = build(&specs, seed);
        for (from, to) in [(0, specs.len() - 1), (specs.len() - 1, 0)] {
            wired.wire(Wire { from, to, spec: AT_ONCE }, RandomStream::named(1, "a", "b"));
        }
        prop_assert_eq!(run(wired, &arrivals, lateness), expected);
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
    let stage = |name| -> Box<dyn Stage> { Box::new(Diary(name, Arc::clone(&diary), Time::MAX)) };
    let mut line = Line::of(vec![stage("one"), stage("two")]);
    for (from, to) in [(0, 1), (1, 0)] {
        let wire = Wire { from, to, spec: FeedbackSpec { delay_ns: 10, loss: 0.0 } };
        line.wire(wire, RandomStream::named(1, "test", "feedback"));
    }
    let mut out = Output::default();
    for (at, index) in [(10, 0), (10, 1)] {
        line.change(Time(at), index, &Change::Loss(0.0));
    }
    line.push(Time(0), packet(0, 1), &mut out);
    line.push(Time(10), packet(1, 1), &mut out);
    line.poll(Time(u64::MAX - 1), &mut out);
    let instants = [
        "0 one takes, 0 two takes",
        "10 one changes, 10 two changes, 10 two hears, 10 one hears, 10 one works, 10 two works",
        "10 one takes, 10 two takes",
        "20 two hears, 20 one hears, 20 one works, 20 two works",
    ];
    assert_eq!(diary.lock().unwrap().join(", "), instants.join(", "));
    assert_eq!((line.told(), line.poll_at()), (Told { sent: 4, lost: 0 }, Time::MAX));
}

#[test]
#[should_panic(expected = "feedback takes time")]
fn feedback_without_delay_is_refused() {
    let wire = Wire { from: 0, to: 0, spec: FeedbackSpec { delay_ns: 0, loss: 0.0 } };
    Line::of(vec![Box::new(Witness)]).wire(wire, RandomStream::named(1, "test", "feedback"));
}
