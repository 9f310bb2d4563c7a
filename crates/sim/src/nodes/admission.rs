//! Call admission: a call starts only if all active calls and the new one fit into the reserved rate.
//!
//! Start times and durations of all calls are known before the run, so the refused calls are too.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, BinaryHeap};

use transport::LoadSpec;
use transport::media::SourceSpec;
use units::{Span, Time};

use crate::nodes::flow;
use spec::{FlowSpec, RunSpec, TransportSpec};

/// The upper bound of QUIC bytes around a datagram (RFC 9000 section 17.3.1, RFC 9221 section 4). It counts flags, a
/// connection id of 8, a packet number of 4, tag, type and length.
const QUIC_OVERHEAD_BYTES: u64 = 38;

/// Returns the flow indices of the refused calls.
///
/// # Errors
/// An unknown member, or a member that sends no datagrams.
pub fn refused_calls(spec: &RunSpec) -> Result<BTreeSet<usize>, String> {
    let mut refused = BTreeSet::new();
    if spec.admissions.is_empty() {
        return Ok(refused);
    }
    let names = spec.flows.iter().map(|flow| flow.name.as_str()).zip(0..);
    let index_by_name: BTreeMap<&str, usize> = names.collect();
    for admission in &spec.admissions {
        let error = |text: String| format!("admission {}: {text}", admission.name);
        let mut calls = Vec::new();
        for name in &admission.flows {
            let index = index_by_name.get(name.as_str()).copied();
            let index = index.ok_or_else(|| error(format!("unknown flow {name:?}")))?;
            let flow = &spec.flows[index];
            let LoadSpec::Datagrams(load) = &flow.load else {
                return Err(error(format!("flow {name:?} sends no datagrams")));
            };
            let begin = flow::draw_start_time(spec.seed, flow);
            let end = begin + Span(load.duration_ns);
            let rates = [&load.up, &load.down].map(|source| rate_bit_s(flow, source.as_ref()));
            calls.push((begin, index, end, rates));
        }
        calls.sort_unstable();
        let mut under_way: BinaryHeap<Reverse<(Time, [u64; 2])>> = BinaryHeap::new();
        let mut used = [0u64; 2];
        for (begin, index, end, rates) in calls {
            while let Some(Reverse((end_of_call, rates))) = under_way.peek().copied()
                && end_of_call <= begin
            {
                under_way.pop();
                used = [0, 1].map(|direction| used[direction] - rates[direction]);
            }
            let with_call = [0, 1].map(|way| used[way].saturating_add(rates[way]));
            if with_call.iter().all(|rate| *rate <= admission.rate_bit_s) {
                used = with_call;
                under_way.push(Reverse((end, rates)));
            } else {
                refused.insert(index);
            }
        }
    }
    Ok(refused)
}

/// Returns the rate of a source during a talk spurt, including all headers, rounded up.
fn rate_bit_s(flow: &FlowSpec, source: Option<&SourceSpec>) -> u64 {
    let Some(source) = source else { return 0 };
    let header = match &flow.transport {
        TransportSpec::Udp(udp) => u64::from(udp.header_bytes),
        TransportSpec::Quic(quic) => u64::from(quic.header_bytes) + QUIC_OVERHEAD_BYTES,
        TransportSpec::Tcp(_) | TransportSpec::Web { .. } => 0,
    };
    let bytes = u64::from(source.payload_bytes) + header;
    (bytes * 8_000_000_000).div_ceil(source.interval_ns.max(1))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns `count` calls of 80 kbit/s that start at random within `within_s` and last `hold_s`.
    fn spec(seed: u64, count: usize, within_s: u64, hold_s: u64, rate_bit_s: u64) -> RunSpec {
        let source = serde_json::json!({"name": "g711", "rtp_type": 0, "payload_bytes": 172,
            "interval_ns": 20_000_000, "periods": null});
        let names: Vec<String> = (0..count).map(|n| format!("call-{n}")).collect();
        let flows: Vec<_> = names
            .iter()
            .map(|name| {
                serde_json::json!({"name": name, "client": "a", "server": "b", "start_ns": 0,
                "start_jitter_ns": within_s * 1_000_000_000, "client_congestion": {"name": "none"},
                "server_congestion": {"name": "none"},
                "transport": {"kind": "udp", "header_bytes": 28}, "load": {"kind": "datagrams",
                    "up": source, "down": source, "duration_ns": hold_s * 1_000_000_000}})
            })
            .collect();
        RunSpec::from_json(
            &serde_json::json!({
                "seed": seed, "duration_ns": 1, "sample_interval_ns": 1, "flows": flows,
                "graph": {"nodes": [], "links": []},
                "admissions": [{"name": "calls", "flows": names, "rate_bit_s": rate_bit_s}],
            })
            .to_string(),
        )
        .unwrap()
    }

    /// Returns the blocking probability of Erlang's formula B for `load` erlangs and `lines` servers.
    fn erlang_b(load: f64, lines: u32) -> f64 {
        (1..=lines).fold(1.0, |blocked, n| load * blocked / (f64::from(n) + load * blocked))
    }

    #[test]
    fn the_refusal_rate_follows_erlang_b() {
        // 20 calls fit. The arrival rate is 1 call per second; calls last 15, 20 and 30 s.
        for hold in [15u64, 20, 30] {
            let (mut refusals, mut calls) = (0, 0);
            let mut spec = spec(1, 600, 600, hold, 20 * 80_000 + 79_999);
            for seed in 1..=40 {
                spec.seed = seed;
                let refused = refused_calls(&spec).unwrap();
                // The start and the end of the arrivals are excluded.
                let whole = spec.flows.iter().enumerate().filter(|(_, flow)| {
                    (100.0..600.0).contains(&flow::draw_start_time(spec.seed, flow).seconds())
                });
                for (index, _) in whole {
                    calls += 1;
                    refusals += u32::from(refused.contains(&index));
                }
            }
            let found = f64::from(refusals) / f64::from(calls);
            // The error is about 5 %: refusals are correlated, so 20,000 calls tell less than independent draws.
            let wanted = erlang_b(hold as f64, 20);
            assert!((found / wanted - 1.0).abs() < 0.08, "{hold}: {found} {wanted}");
        }
    }

    #[test]
    fn the_rate_limits_concurrent_calls() {
        for (fit, rate) in [(0, 79_999), (1, 80_000), (7, 7 * 80_000), (7, 8 * 80_000 - 1)] {
            let refused = refused_calls(&spec(1, 10, 0, 10, rate)).unwrap();
            assert_eq!(refused.into_iter().collect::<Vec<_>>(), (fit..10).collect::<Vec<_>>());
        }
    }

    #[test]
    fn invalid_members_are_named() {
        let mut other = spec(1, 2, 0, 10, 80_000);
        other.admissions[0].flows.push("who".to_owned());
        assert_eq!(refused_calls(&other).unwrap_err(), "admission calls: unknown flow \"who\"");
    }
}
