//! The tables of calls: what has become of the datagrams of each direction, and how long they took.

use std::collections::{BTreeMap, BTreeSet};

use transport::Report;
use transport::calls::{Bin, CallSide, Said, WINDOW, WindowHeard};
use units::{Direction, Time};

use crate::flow::FlowSide;
use crate::seat::Seat;
use crate::tables::{Row, Table, Value};

/// What a host tells of its side.
#[derive(Default)]
struct Told(Option<CallSide>);

impl Report for Told {
    fn call(&mut self, side: &CallSide) {
        self.0 = Some(side.clone());
    }
}

/// `calls` and `call_delays`, of a run that has calls.
pub fn tables(end: Time, seats: &[Seat], sides: &[FlowSide]) -> Vec<Table> {
    let (mut calls, mut delays) = (Table::new("calls"), Table::new("call_delays"));
    for (seats, sides) in seats.chunks(2).zip(sides.chunks(2)) {
        let [client, server] = [0, 1].map(|place| {
            let mut told = Told::default();
            if let Some(seat) = seats.get(place) {
                seat.node.tell(&mut told);
            }
            told.0.unwrap_or_default()
        });
        for (way, from, to) in
            [(Direction::Up, &client, &server), (Direction::Down, &server, &client)]
        {
            let Some(said) = &from.said else { continue };
            let (flow, way) = (sides[0].flow.as_str(), name(way));
            let undecided = said.undecided(end, to.heard.latest());
            let heard = to.heard.windows();
            let windows: BTreeSet<u32> = said.sent.keys().chain(heard.keys()).copied().collect();
            for window in windows {
                let none = WindowHeard::default();
                let heard = heard.get(&window).unwrap_or(&none);
                calls.row(&calls_row([flow, way], said, window, (heard, &undecided)));
                for (delay, bin) in &heard.bins {
                    delays.row(&delays_row([flow, way], window, *delay, bin));
                }
            }
        }
    }
    if calls.rows() == 0 {
        return Vec::new();
    }
    if delays.rows() == 0 {
        delays = Table::declared("call_delays", &delays_row(["", ""], 0, 0, &Bin::default()));
    }
    vec![calls, delays]
}

fn name(way: Direction) -> &'static str {
    match way {
        Direction::Up => "up",
        Direction::Down => "down",
    }
}

/// When a window begins.
fn begin(window: u32) -> Value<'static> {
    (f64::from(window) * WINDOW.seconds()).into()
}

fn calls_row<'a>(
    [flow, way]: [&'a str; 2],
    said: &'a Said,
    window: u32,
    (heard, undecided): (&WindowHeard, &BTreeMap<u32, u64>),
) -> Row<'a, 16> {
    let of = |counts: &BTreeMap<u32, u64>| counts.get(&window).copied().unwrap_or(0);
    let some = |value: f64| (heard.received > 0).then_some(value);
    [
        ("flow", flow.into()),
        ("direction", way.into()),
        ("source", said.spec.name.as_str().into()),
        ("payload_bytes", u64::from(said.spec.payload_bytes).into()),
        ("interval_ms", (said.spec.interval_ns as f64 / 1e6).into()),
        ("window_s", begin(window)),
        ("sent_packets", of(&said.sent).into()),
        ("received_packets", heard.received.into()),
        ("duplicate_packets", heard.duplicates.into()),
        ("overtaken_packets", heard.overtaken.into()),
        ("undecided_packets", of(undecided).into()),
        ("delay_sum_s", (heard.delay_ns as f64 / 1e9).into()),
        ("least_delay_ms", some(heard.least.millis()).into()),
        ("largest_delay_ms", some(heard.largest.millis()).into()),
        ("jitter_ms", some(heard.jitter.millis()).into()),
        ("jitter_sum_s", (heard.jitter_ns as f64 / 1e9).into()),
    ]
}

fn delays_row<'a>([flow, way]: [&'a str; 2], window: u32, delay_ms: u32, bin: &Bin) -> Row<'a, 7> {
    [
        ("flow", flow.into()),
        ("direction", way.into()),
        ("window_s", begin(window)),
        ("delay_ms", u64::from(delay_ms).into()),
        ("packets", bin.packets.into()),
        ("before_slower_packets", bin.before_slower.into()),
        ("after_quicker_packets", bin.after_quicker.into()),
    ]
}
