//! Fifth proof: feedback between the stages of a link consists of time-ordered events, and a late driver does not
//! change them.

use std::sync::{Arc, Mutex};

use link::{
    DropTail, Feedback, FeedbackChannel, FeedbackSpec, FeedbackStats, InFlightPolicy, LinkCounters,
    LinkOutput, RateService, SimplexLink, Stage, StageOutput, StageSpec, StageUpdate, Transmitter,
};
use proptest::prelude::*;
use units::{Packet, RandomStream, Rate, Span, Time};

use crate::common::packet;
use crate::properties::{arrivals, stages};

type Arrivals = Vec<(Time, Packet)>;

/// The visible results: deliveries, drops, counters and feedback statistics.
type Seen = (Arrivals, Vec<(Time, Packet, link::DropReason)>, LinkCounters, FeedbackStats);

/// Runs all arrivals. Each wake-up is late by up to `lateness`. Packets that arrived in the meantime are pushed only
/// then, with the time stamps of their arrival.
fn run(mut line: SimplexLink, arrivals: &Arrivals, lateness: Span) -> Seen {
    let (mut rest, mut out) = (arrivals.iter().copied().peekable(), LinkOutput::default());
    let mut random = RandomStream::named(1, "driver", "lateness");
    loop {
        let due = line.poll_at().min(rest.peek().map_or(Time::MAX, |(at, _)| *at));
        if due == Time::MAX {
            return (out.delivered, out.dropped, *line.counters(), line.feedback_stats());
        }
        let now = due + random.span_below(lateness);
        while let Some((at, packet)) = rest.next_if(|(at, _)| *at <= now) {
            line.push(at, packet, &mut out);
        }
        line.poll(now, &mut out);
    }
}

fn build(specs: &[StageSpec], seed: u64) -> SimplexLink {
    SimplexLink::build(specs, "radio.up", seed).unwrap()
}

/// A link as a stage.
struct Within(SimplexLink, LinkOutput);

impl Within {
    fn pass(&mut self, out: &mut StageOutput) {
        self.1.delivered.drain(..).for_each(|(due, packet)| out.emit(due, packet));
        self.1.dropped.drain(..).for_each(|(due, packet, cause)| out.drop(due, packet, cause));
    }
}

impl Stage for Within {
    fn push(&mut self, due: Time, packet: Packet, out: &mut StageOutput) {
        self.0.push(due, packet, &mut self.1);
        self.pass(out);
    }
    fn poll(&mut self, now: Time, out: &mut StageOutput) {
        self.0.poll(now, &mut self.1);
        self.pass(out);
    }
    fn poll_at(&self) -> Time {
        self.0.poll_at()
    }
}

/// A stage that releases one packet per feedback, plus an initial number. It releases the newest first, so that
/// feedback at another instant changes the order.
struct Window(usize, Vec<Packet>);

impl Window {
    fn work(&mut self, due: Time, out: &mut StageOutput) {
        while self.0 > 0
            && let Some(packet) = self.1.pop()
        {
            self.0 -= 1;
            out.emit(due, packet);
        }
    }
}

impl Stage for Window {
    fn push(&mut self, due: Time, packet: Packet, out: &mut StageOutput) {
        self.1.push(packet);
        self.work(due, out);
    }
    fn poll(&mut self, _: Time, _: &mut StageOutput) {}
    fn poll_at(&self) -> Time {
        Time::MAX
    }
    fn on_feedback(&mut self, due: Time, _: &Feedback, out: &mut StageOutput) {
        self.0 += 1;
        self.work(due, out);
    }
}

fn ack(number: u32) -> Feedback {
    Feedback::AckNack { user: 0, id: number.into(), is_decoded: true }
}

/// A stage that sends feedback for every packet.
struct Witness;

impl Stage for Witness {
    fn push(&mut self, due: Time, packet: Packet, out: &mut StageOutput) {
        out.send_feedback(due, ack(packet.handle));
        out.emit(due, packet);
    }
    fn poll(&mut self, _: Time, _: &mut StageOutput) {}
    fn poll_at(&self) -> Time {
        Time::MAX
    }
}

/// Returns a window, a rate, random stages and a witness, twice. Each witness sends feedback to both windows.
fn radio(specs: &[Vec<StageSpec>; 2], delays: [u64; 4], loss: f64, seed: u64) -> SimplexLink {
    let half = |specs: &Vec<StageSpec>| -> [Box<dyn Stage>; 4] {
        let rate = Transmitter::new(DropTail::new(None), RateService::new(Rate(20_000_000)));
        let within = Within(build(specs, seed), LinkOutput::default());
        [Box::new(Window(10, Vec::new())), Box::new(rate), Box::new(within), Box::new(Witness)]
    };
    let mut line = SimplexLink::from_stages(specs.iter().flat_map(half).collect());
    for (number, delay_ns) in delays.into_iter().enumerate() {
        let (from, to) = (3 + 4 * (number / 2), 4 * (number % 2));
        let random = RandomStream::named(seed, "radio", &format!("feedback.{number}"));
        line.add_feedback(
            FeedbackChannel { from, to, spec: FeedbackSpec { delay_ns, loss } },
            random,
        );
    }
    // In the middle of the run both rates drop their queues.
    for index in [1, 5] {
        line.schedule_update(Time(30_000_000), index, &StageUpdate::InFlight(InFlightPolicy::Drop));
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
        // This includes a driver that polls only once, after all arrivals.
        prop_assert_eq!(&run(line(), &arrivals, Span(u64::MAX / 2)), &exact);
    }

    #[test]
    fn unused_feedback_channels_change_nothing(
        specs in prop::collection::vec(stages().prop_filter("tells", |s| !tells(s)), 1..5),
        arrivals in arrivals(), seed: u64, late: bool,
    ) {
        let lateness = if late { Span::from_millis(30) } else { Span(1) };
        let expected = run(build(&specs, seed), &arrivals, lateness);
        prop_assert_eq!(expected.3, FeedbackStats::default());
        let mut wired = build(&specs, seed);
        for (from, to) in [(0, specs.len() - 1), (specs.len() - 1, 0)] {
            wired.add_feedback(FeedbackChannel { from, to, spec: AT_ONCE }, RandomStream::named(1, "a", "b"));
        }
        prop_assert_eq!(run(wired, &arrivals, lateness), expected);
    }
}

/// A stage that logs its calls. It has work 10 ns after a packet, and sends feedback for each packet.
struct Diary(&'static str, Arc<Mutex<Vec<String>>>, Time);

impl Diary {
    fn note(&self, at: Time, what: &str) {
        self.1.lock().unwrap().push(format!("{} {} {what}", at.nanos(), self.0));
    }
}

impl Stage for Diary {
    fn push(&mut self, due: Time, packet: Packet, out: &mut StageOutput) {
        self.note(due, "takes");
        self.2 = due + Span(10);
        out.send_feedback(due, ack(packet.handle));
        out.emit(due, packet);
    }
    fn poll(&mut self, _: Time, _: &mut StageOutput) {
        self.note(self.2, "works");
        self.2 = Time::MAX;
    }
    fn poll_at(&self) -> Time {
        self.2
    }
    fn apply_update(&mut self, due: Time, _: &StageUpdate, _: &mut StageOutput) {
        self.note(due, "changes");
    }
    fn on_feedback(&mut self, due: Time, _: &Feedback, _: &mut StageOutput) {
        self.note(due, "hears");
    }
}

#[test]
fn the_order_within_an_instant_is_as_documented() {
    let diary = Arc::default();
    let stage = |name| -> Box<dyn Stage> { Box::new(Diary(name, Arc::clone(&diary), Time::MAX)) };
    let mut line = SimplexLink::from_stages(vec![stage("one"), stage("two")]);
    for (from, to) in [(0, 1), (1, 0)] {
        let wire = FeedbackChannel { from, to, spec: FeedbackSpec { delay_ns: 10, loss: 0.0 } };
        line.add_feedback(wire, RandomStream::named(1, "test", "feedback"));
    }
    let mut out = LinkOutput::default();
    for (at, index) in [(10, 0), (10, 1)] {
        line.schedule_update(Time(at), index, &StageUpdate::Loss(0.0));
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
    assert_eq!(
        (line.feedback_stats(), line.poll_at()),
        (FeedbackStats { sent: 4, lost: 0 }, Time::MAX)
    );
}

#[test]
#[should_panic(expected = "feedback takes time")]
fn feedback_without_delay_is_refused() {
    let wire = FeedbackChannel { from: 0, to: 0, spec: FeedbackSpec { delay_ns: 0, loss: 0.0 } };
    SimplexLink::from_stages(vec![Box::new(Witness)])
        .add_feedback(wire, RandomStream::named(1, "test", "feedback"));
}
