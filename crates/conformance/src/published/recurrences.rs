//! NewReno, Hybla and Westwood+ against [recurrences](cc::test_support::recurrence) over packets: the window after each
//! ACK, from slow start through periodic losses, without pacing and slow-start exits.

use cc::ControllerConfig;
use cc::test_support::recurrence::{
    HyblaRecurrence, PacketSender, RenoRecurrence, WestwoodRecurrence, WindowAlgorithm, every,
};
use cc::test_support::{BottleneckModel, ModelFlow, ModelLoss, ModelPath};
use serde_json::json;
use units::{Rate, Span, Time};

use super::case::{BuildWithOptionsFn, PublishedCheck};
use crate::check_result::CasePart;

/// The checks.
pub const CHECKS: &[PublishedCheck] = &[
    PublishedCheck {
        name: "newreno-packets",
        source: "RFC 5681 section 3.1, RFC 9002 section 7.3",
        controller: "newreno",
        run: |make| compare(make, &|_| Box::new(RenoRecurrence::default())),
    },
    PublishedCheck {
        name: "hybla-packets",
        source: "Caini and Firrincieli 2004, equations 5 and 7",
        controller: "hybla",
        run: |make| compare(make, &|rtt| Box::new(HyblaRecurrence::new(rtt))),
    },
    PublishedCheck {
        name: "westwood-packets",
        source: "Grieco and Mascolo 2004, section 2",
        controller: "westwood",
        run: |make| compare(make, &|rtt| Box::new(WestwoodRecurrence::paper(rtt))),
    },
];

const MSS: u64 = 1200;
/// A packet takes a nanosecond, so that each ACK has its own instant.
const RATE: Rate = Rate(MSS * 8 * 1_000_000_000);
/// Every packet with a multiple of this number is lost.
const PERIOD: u64 = 1000;
const PACKETS: u64 = 20 * PERIOD;
/// A packet: windows rounded to bytes grow by a whole packet one ACK earlier or later. A hundredth is for the rounding.
const TOLERANCE: f64 = 1.01;

/// Compares the window after each delivered packet at three RTTs.
fn compare(
    make: BuildWithOptionsFn,
    law: &dyn Fn(f64) -> Box<dyn WindowAlgorithm>,
) -> Vec<CasePart> {
    let rtts = ["20 ms", "100 ms", "600 ms"].into_iter().zip([20, 100, 600]);
    rtts.map(|(label, rtt_ms)| {
        let rtt = Span::from_millis(rtt_ms);
        let expected = expected_windows(&mut *law(rtt.seconds()), rtt);
        let windows = measured_windows(make, rtt);
        let pairs = windows.iter().zip(&expected);
        let error = pairs.map(|(a, b)| (a - b).abs()).fold(0.0, f64::max);
        CasePart {
            label,
            has_passed: error <= TOLERANCE && windows.len() >= expected.len(),
            detail: format!(
                "at most {error:.3} packets of difference after any of {} ACKs, required {TOLERANCE}",
                expected.len()
            ),
        }
    })
    .collect()
}

fn expected_windows(law: &mut dyn WindowAlgorithm, rtt: Span) -> Vec<f64> {
    let mut sender = PacketSender::in_slow_start(rtt.seconds());
    let lost = &mut every(PERIOD);
    let steps = std::iter::from_fn(|| sender.step(law, lost));
    let steps = steps.take_while(|packet| packet.number < PACKETS);
    steps.filter(|packet| packet.is_delivered).map(|packet| packet.window).collect()
}

fn measured_windows(make: BuildWithOptionsFn, rtt: Span) -> Vec<f64> {
    let config = ControllerConfig {
        mss: MSS,
        initial_window: 10 * MSS,
        initial_rtt: Span::from_millis(333),
        seed: 1,
        is_paced: false,
    };
    let controller = make(&config, &json!({"slow_start_exit": "none"}));
    let mut flow = ModelFlow::new(controller, &config, rtt);
    flow.is_recording = true;
    flow.is_paced = false;
    let loss = ModelLoss::Every(PERIOD);
    let path = ModelPath { ack_every: 1, loss, ..ModelPath::bottleneck(RATE, u64::MAX) };
    let mut model = BottleneckModel::new(path, vec![flow]);
    let mut end = Time::ZERO;
    while model.flows[0].delivered() < PACKETS * MSS && end.since(Time::ZERO) < rtt * 10_000 {
        end += rtt;
        model.run_until(end);
    }
    let acks = model.flows[0].records.iter().filter(|record| record.ack.is_some());
    acks.map(|record| record.control.cwnd as f64 / MSS as f64).collect()
}
