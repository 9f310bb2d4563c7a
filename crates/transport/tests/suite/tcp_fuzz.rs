//! Random paths: every byte arrives once and in order, and no data stays in flight. This holds for all options, losses,
//! duplicates and reorderings.

use crate::tcp_paths::{MSS, Pair, linux};
use transport::tcp::{AckCounting, LossDetection, TcpSpec};
use units::{RandomStream, Span};

fn random_spec(random: &mut RandomStream) -> TcpSpec {
    let mut coin = || random.chance(0.5);
    let mut spec = linux();
    (spec.sack, spec.dsack, spec.adapt_reordering) = (coin(), coin(), coin());
    (spec.limited_transmit, spec.prr, spec.frto) = (coin(), coin(), coin());
    (spec.timestamps, spec.window_scaling, spec.pacing) = (coin(), coin(), coin());
    (spec.fast_open, spec.restart_after_idle, spec.ecn) = (coin(), coin(), coin());
    if coin() {
        let forward = coin();
        spec.loss_detection = LossDetection::DuplicateAcks { threshold: 3, forward };
    }
    if coin() {
        spec.delayed_ack = crate::tcp_paths::delayed(2, if coin() { 16 } else { 0 });
    }
    spec.ack_counting = match random.below(3) {
        0 => AckCounting::PerAck,
        1 => AckCounting::Bytes { limit: 2 },
        _ => AckCounting::Unlimited,
    };
    if random.chance(0.3) {
        spec.receive_buffer_bytes = random.below(20) * MSS + 500;
    }
    spec
}

#[test]
fn every_byte_arrives_once() {
    let names = cc::ENTRIES.iter().map(|entry| entry.name());
    let congestions: Vec<_> = names.filter(|name| *name != "fixed").collect();
    for seed in 0..400 {
        let mut random = RandomStream::named(seed, "tcp", "fuzz");
        let spec = random_spec(&mut random);
        let congestion = congestions[random.below(congestions.len() as u64) as usize];
        let bytes = random.below(300) * 1000 + random.below(3000) + 1;
        println!("seed {seed}: {congestion}, {bytes} bytes, {spec:?}");
        let worst = if random.chance(0.3) { 0.3 } else { 0.05 };
        let (loss, ack_loss) = (random.between(0.0, worst), random.between(0.0, worst));
        let (copies, jitter) = (random.between(0.0, 0.1), random.below(60));
        let one_way = 1 + random.below(200);
        let path = move |left: &crate::tcp_paths::Left| {
            let mut copy = |chance: f64| {
                let delay = Span::from_millis(one_way)
                    + Span::from_millis(if random.chance(0.2) {
                        random.below(jitter + 1)
                    } else {
                        0
                    });
                (!random.chance(chance)).then_some(delay)
            };
            let lost = if left.up { loss } else { ack_loss };
            let first = copy(lost);
            let second = copy(1.0 - copies);
            first.into_iter().chain(second).collect()
        };
        let mut pair = Pair::new(&spec, congestion, Box::new(path));
        pair.transfer(bytes, 100_000);
        // The other direction closes too.
        pair.server().finish();
        pair.run_until(units::Time::ZERO + Span::from_secs(200_000));
        assert!(pair.client.is_closed() && pair.server().is_closed(), "both closed");
        assert!(pair.client.counters().retransmitted_bytes <= Some(20 * bytes + 100_000));
    }
}
