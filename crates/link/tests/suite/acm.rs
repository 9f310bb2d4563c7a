//! Adaptive coding and modulation during a fade: closed forms of the rates, and the losses.

use link::{
    AcmSpec, ChannelSpec, DropTailSpec, FixedChannelSpec, Interpolation, LinkOutput,
    MeasuredAttenuationSpec, ModcodSpec, QueueSpec, ReferenceSnr, SimplexLink, StageSpec,
};
use units::{Packet, Time};

use crate::common::fading;

const SECOND: u64 = 1_000_000_000;
const DELAY: u64 = 300_000_000;
const INTERVAL: u64 = 100_000_000;

/// QPSK 1/4, 1/2 and 9/10 of DVB-S2 (ETSI EN 302 307-1, table 13).
fn modes() -> Vec<ModcodSpec> {
    [(-2.35, 15_928), (1.0, 32_128), (6.42, 58_112)]
        .map(|(es_n0_db, data_bits)| ModcodSpec {
            es_n0_db,
            data_bits,
            coded_bits: 64_800,
            symbols: 32_490,
        })
        .to_vec()
}

fn spec(channel: ChannelSpec) -> AcmSpec {
    AcmSpec {
        queue: QueueSpec::DropTail(DropTailSpec { limit: None }),
        channel,
        symbols_s: 1_000_000,
        modes: modes(),
        margin_db: 0.5,
        hysteresis_db: 1.0,
        report_interval_ns: INTERVAL,
        report_delay_ns: DELAY,
    }
}

fn line(spec: AcmSpec) -> SimplexLink {
    SimplexLink::build(&[StageSpec::Acm(Box::new(spec))], "test", 1).unwrap()
}

/// Returns the attenuation in dB from instants in seconds on, with an Es/N0 of 10 dB.
fn fades(points: &[(f64, f64)]) -> ChannelSpec {
    ChannelSpec::Measured(MeasuredAttenuationSpec {
        reference: ReferenceSnr { snr_db: 10.0, error_db: 0.0 },
        points: points.iter().map(|(at, db)| ((at * 1e9) as u64, *db)).collect(),
        interpolation: Interpolation::Step,
        repeat_ns: None,
    })
}

/// Saturates the link with packets of 125 bytes for `seconds`.
fn saturated(spec: AcmSpec, seconds: u64) -> LinkOutput {
    let (mut line, mut out) = (line(spec), LinkOutput::default());
    let max_packets = seconds * 2_000;
    for _ in 0..max_packets {
        line.push(Time::ZERO, Packet::of_bytes(125), &mut out);
    }
    line.poll(Time(seconds * SECOND), &mut out);
    out
}

fn within(instants: impl Iterator<Item = Time>, from: f64, to: f64) -> usize {
    instants.filter(|at| (from..to).contains(&at.seconds())).count()
}

/// QPSK 1/4 carries 15,928 bits in 32,490 symbols, 0.490243 per symbol. The hysteresis of 1 dB does not affect the
/// first choice: at 1.2 dB QPSK 1/2 needs 1.
#[test]
fn the_rate_is_the_mode_s_spectral_efficiency() {
    for (snr_db, efficiency) in
        [(-2.3, 0.490_243), (0.0, 0.490_243), (1.2, 0.988_858), (4.0, 0.988_858), (30.0, 1.788_612)]
    {
        let spec =
            AcmSpec { margin_db: 0.0, ..spec(ChannelSpec::Fixed(FixedChannelSpec { snr_db })) };
        let out = saturated(spec, 1);
        assert!(out.dropped.is_empty());
        let expected = 1e6 * efficiency / 1_000.0;
        assert!((out.delivered.len() as f64 - expected).abs() <= 1.0, "{snr_db} dB");
    }
}

/// A fade of 7 dB at 2 s: only packets sent before the report of it arrives are lost. The rate is QPSK 1/2 until the
/// report of its end at 5 s has arrived.
#[test]
fn a_fade_causes_losses_until_its_report_arrives() {
    let out = saturated(spec(fades(&[(0.0, 0.0), (2.0, 7.0), (5.0, 0.0)])), 8);
    let delivered = || out.delivered.iter().map(|(at, _)| *at);
    let dropped = || out.dropped.iter().map(|(at, _, _)| *at);
    let packet = 1e-3 / 0.490_243;
    // 9/10 before the fade, 1/2 in it, for which 3 dB - 0.5 dB suffice.
    let rate = |efficiency: f64, seconds: f64| 1e6 * efficiency * seconds / 1_000.0;
    let close = |count: usize, expected: f64| (count as f64 - expected).abs() <= 2.0;
    assert!(close(within(delivered(), 0.0, 2.0), rate(1.788_612, 2.0)));
    assert!(close(within(dropped(), 2.0, 2.3), rate(1.788_612, 0.3)));
    assert_eq!(within(dropped(), 0.0, 2.0), 0);
    assert_eq!(within(dropped(), 2.3 + packet, 8.0), 0);
    assert!(close(within(delivered(), 2.3, 5.3), rate(0.988_858, 3.0)));
    assert!(close(within(delivered(), 5.3, 8.0), rate(1.788_612, 2.7)));
    assert!(close(out.dropped.len(), rate(1.788_612, 0.3)));
}

/// Between 6.92 dB (9/10 and margin) and 7.92 dB (and hysteresis) a link does not change its mode.
#[test]
fn hysteresis_keeps_the_mode() {
    let modes_of = |points: &[(f64, f64)]| {
        let out = saturated(spec(fades(points)), 6);
        within(out.delivered.iter().map(|(at, _)| *at), 4.0, 6.0)
    };
    let fast = modes_of(&[(0.0, 0.0), (1.0, 2.5)]);
    let slow = modes_of(&[(0.0, 7.0), (1.0, 2.5)]);
    assert!((3_575..=3_579).contains(&fast), "{fast}");
    assert!((1_976..=1_979).contains(&slow), "{slow}");
}

/// Reports do not depend on the traffic: a packet after an idle period gets the same mode.
#[test]
fn reports_do_not_depend_on_traffic() {
    let time_of_a_packet = |others: bool| {
        let mut line = line(spec(fading::trees()));
        let mut out = LinkOutput::default();
        for k in (1..200u64).filter(|_| others) {
            line.poll(Time(k * SECOND / 10), &mut out);
            line.push(Time(k * SECOND / 10), Packet::of_bytes(20), &mut out);
        }
        let at = Time(30 * SECOND);
        line.poll(at, &mut out);
        line.push(at, Packet::of_bytes(1_500), &mut out);
        line.poll_at().since(at)
    };
    assert_eq!(time_of_a_packet(true), time_of_a_packet(false));
}

#[test]
fn bad_specifications_are_refused() {
    let refused = |spec: AcmSpec| {
        SimplexLink::build(&[StageSpec::Acm(Box::new(spec))], "test", 1)
            .map(|_| ())
            .unwrap_err()
            .message
    };
    let good = || spec(fades(&[(0.0, 0.0)]));
    let mut falling = good();
    falling.modes.reverse();
    assert!(refused(falling).contains("each must be faster"));
    assert!(refused(AcmSpec { modes: Vec::new(), ..good() }).contains("modes is empty"));
    assert!(refused(AcmSpec { symbols_s: 0, ..good() }).contains("above 0"));
    let late = AcmSpec { report_delay_ns: 2 * SECOND, ..good() };
    assert!(refused(late).contains("exceeds 1 s"));
    assert!(refused(AcmSpec { hysteresis_db: -1.0, ..good() }).contains("hysteresis_db = -1"));
}
