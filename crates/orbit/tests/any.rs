//! Arbitrary input: invalid texts are refused, path series are consistent, and no delay is below that of light.

use orbit::earth::{GroundPoint, SPEED_OF_LIGHT};
use orbit::spec::{
    ConstellationSpec, GroundStationSpec, HandoverPolicy, Height, IslTopology, Phasing,
    Propagation, Shell, VisibilitySpec,
};
use orbit::{Constellation, OrbitSpec, compute_path_series};
use proptest::prelude::*;

const ISS: &str = "\
1 25544U 98067A   20194.88612269 -.00002218  00000-0 -31515-4 0  9992
2 25544  51.6461 221.2784 0001413  89.1723 280.4612 15.49507896236008
";

fn policies() -> impl Strategy<Value = HandoverPolicy> {
    let slots = (1_u64..60, 0_u64..60, 0_u64..1000, any::<u64>()).prop_map(
        |(period, phase, jitter, seed)| HandoverPolicy::Periodic {
            interval_ns: period * 1_000_000_000,
            phase_ns: phase * 1_000_000_000,
            jitter_ns: jitter * 1_000_000,
            seed,
        },
    );
    prop_oneof![
        Just(HandoverPolicy::ShortestPath),
        Just(HandoverPolicy::BestElevation),
        Just(HandoverPolicy::KeepUntilLost),
        slots.prop_filter("a jitter below the period", |one| !matches!(one,
            HandoverPolicy::Periodic { interval_ns, jitter_ns, .. } if jitter_ns >= interval_ns)),
    ]
}

prop_compose! {
    fn specs()(
        planes in 1_u32..14, per_plane in 1_u32..16, inclination_deg in 0.0..180.0, altitude in 400.0..2000.0,
        star in any::<bool>(), factor in 0.0..1.0, sgp4 in any::<bool>(), grid in any::<bool>(), nearest in any::<bool>(),
        from in (-89.0..89.0, -180.0..180.0), to in prop::collection::vec((-89.0..89.0, -180.0..180.0), 1..3),
        relays in prop::collection::vec((-89.0..89.0, -180.0..180.0), 0..3), min_elevation in 0.0..40.0, policy in policies(),
    ) -> OrbitSpec {
        let site = |(latitude_deg, longitude_deg): (f64, f64)| {
            GroundStationSpec { name: "there".into(), latitude_deg, longitude_deg, height_m: 0.0 }
        };
        OrbitSpec {
            constellation: ConstellationSpec::Walker(Shell {
                planes, per_plane, inclination_deg,
                height: Height::AltitudeKm(altitude),
                spread_deg: if star { 180.0 } else { 360.0 },
                phasing: Phasing::Factor(factor * f64::from(planes)),
                propagation: if sgp4 { Propagation::Sgp4 } else { Propagation::J2 },
                epoch_unix_ns: 946_684_800_000_000_000,
            }),
            start_unix_ns: None,
            duration_ns: 120_000_000_000,
            step_ns: 5_000_000_000,
            from: site(from),
            to: to.into_iter().map(site).collect(),
            relays: relays.into_iter().map(site).collect(),
            visibility: VisibilitySpec::ElevationDeg(min_elevation),
            links: if grid {
                IslTopology::Grid { nearest, closed: !star, within_latitude_deg: None }
            } else {
                IslTopology::BentPipe
            },
            handover_policy: policy,
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]

    #[test]
    fn path_series_are_consistent(spec in specs()) {
        let found = compute_path_series(&spec).unwrap();
        prop_assert_eq!(found.delays.len(), 25);
        let ground = |site: &GroundStationSpec| GroundPoint::new(site.latitude_deg, site.longitude_deg, 0.0).position;
        for (step, delays) in found.delays.iter().enumerate() {
            let at = step as u64 * spec.step_ns;
            let route = found.paths.iter().rev().find(|one| one.start_ns <= at).unwrap();
            prop_assert_eq!(delays.is_some(), !route.nodes.is_empty());
            let Some(delays) = delays else { continue };
            let across = ground(&spec.from).distance(ground(&spec.to[route.destination]));
            prop_assert!(delays.total().seconds() >= across / SPEED_OF_LIGHT - 1e-9);
            prop_assert!(delays.to_last_satellite.seconds() * SPEED_OF_LIGHT > 390.0 && delays.from_last_satellite.seconds() * SPEED_OF_LIGHT > 390.0);
            let mut nodes = route.nodes.clone();
            nodes.sort_unstable();
            nodes.dedup();
            prop_assert_eq!(nodes.len(), route.nodes.len(), "no node twice");
            let view = found.visibility[step];
            prop_assert!(view.visible_from_source > 0 && view.visible_from_destination > 0);
            let min_elevation = match spec.visibility { VisibilitySpec::ElevationDeg(min_elevation) => min_elevation, VisibilitySpec::SlantKm(_) => 0.0 };
            let (near, far) = view.elevations_deg.unwrap();
            prop_assert!(near >= min_elevation - 1e-6 && far >= min_elevation - 1e-6);
        }
        prop_assert!(found.breakpoints.windows(2).all(|pair| pair[0].0 < pair[1].0), "time goes on");
    }

    #[test]
    fn the_shortest_path_is_never_longer(spec in specs()) {
        let shortest = compute_path_series(&OrbitSpec { handover_policy: HandoverPolicy::ShortestPath, ..spec.clone() }).unwrap();
        for (shortest_delay, other) in shortest.delays.iter().zip(&compute_path_series(&spec).unwrap().delays) {
            if let Some(other) = other {
                prop_assert!(shortest_delay.unwrap().total().nanos() <= other.total().nanos() + 2);
            }
        }
    }

    #[test]
    fn any_text_is_read_or_refused(
        text in prop::collection::vec(any::<char>().prop_filter("controls", |one| !one.is_control()), 0..200),
        at in 0_usize..140, byte in any::<u8>(),
    ) {
        let text = String::from_iter(text);
        for text in [text.clone(), format!("1 {text}\n2 {text}\n"), format!("[{text}]")] {
            let _ = Constellation::new(&ConstellationSpec::Tle { text: text.clone() });
            let _ = Constellation::new(&ConstellationSpec::Omm { text });
        }
        let mut bytes = ISS.as_bytes().to_vec();
        let at = at % bytes.len();
        bytes[at] = byte & 0x7f;
        if let Ok(mut sky) = Constellation::new(&ConstellationSpec::Tle { text: String::from_utf8(bytes).unwrap() }) {
            let _ = sky.positions_at(1_594_600_000_000_000_000);
        }
    }
}
