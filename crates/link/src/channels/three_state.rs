//! The land-mobile-satellite channel of Perez-Fontan: a Markov chain of shadowing states with Loo fading in each (F.
//! Perez-Fontan et al., IEEE Trans. Broadcasting 44(1), 1998; IEEE Trans. Veh. Tech. 50(6), 2001).

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use units::{Descriptor, Opt, RandomStream, Span};

use super::loo::{FadingContext, StateInterval, StateIntervals, build_loo};
use super::terminal::{
    AZIMUTH, ELEVATION, ENVIRONMENT, FREQUENCY, SEED, SNR, SNR_ERROR, SNR_RANGE, SPEED, STEP,
    in_metres,
};
use super::{ChannelFactory, ChannelSpec, LooSpec, LookAngle, ReferenceSnr, TerminalMotion};
use crate::Channel;
use crate::checks::{ValidationResult, in_range};

/// Shadowing states that form a Markov chain, with Loo fading in each (Perez-Fontan).
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema, PartialEq)]
#[serde(deny_unknown_fields)]
pub struct ThreeStateSpec {
    /// Line-of-sight Es/N0.
    pub reference: ReferenceSnr,
    /// The terminal and its time grid.
    pub motion: TerminalMotion,
    /// The direction to the satellite.
    pub look_angle: LookAngle,
    /// Transition probabilities after one frame, from each state (row) to each state (column).
    pub transitions: Vec<Vec<f64>>,
    /// The fading parameters of each state.
    pub states: Vec<LooSpec>,
    /// The frame length of each state: the distance after which the state is drawn again.
    pub frames_m: Vec<f64>,
    /// The distance over which the parameters change to those of a new state.
    pub transition_m: f64,
    /// The correlation length of the shadowing.
    pub correlation_m: f64,
}

impl ThreeStateSpec {
    /// The descriptor of the member.
    pub const DESCRIPTOR: Descriptor = Descriptor {
        scenario_name: "perez-fontan",
        spec_kind: "three_state",
        aliases: &[],
        title: "Three states of shadowing with Loo fading",
        reference: "Perez-Fontan et al. 1998 and 2001",
        options: &[
            SNR,
            SNR_ERROR,
            ENVIRONMENT,
            ELEVATION,
            AZIMUTH,
            SNR_RANGE,
            SPEED,
            FREQUENCY,
            Opt::hook(
                "state_lengths",
                "*",
                "three_states",
                "frame length of each state, or the frame length of the first state for all (`\"one\"`)",
            )
            .default_word("each"),
            STEP,
            SEED,
        ],
        draws: true,
        live_name: "",
    };
}

impl ChannelFactory for ThreeStateSpec {
    fn validate(&self) -> ValidationResult {
        self.reference.validate()?;
        self.motion.validate()?;
        self.look_angle.validate()?;
        let n = self.states.len();
        if n == 0 || self.frames_m.len() != n || self.transitions.len() != n {
            return Err(
                "states, frames_m and transitions must have the same length, at least 1".into()
            );
        }
        self.states.iter().try_for_each(LooSpec::validate)?;
        self.frames_m.iter().try_for_each(|frame| in_metres("frames_m", *frame))?;
        in_range("transition_m", self.transition_m, 0.0, 1e6)?;
        in_metres("correlation_m", self.correlation_m)?;
        check_transitions(&self.transitions)
    }

    fn build(&self, name: &str, seed: u64) -> Box<dyn Channel> {
        let chain = StateChain::new(self);
        let intervals =
            move |random: RandomStream| Box::new(chain.clone().intervals(random)) as StateIntervals;
        let common = FadingContext::new(&self.motion, &self.look_angle, &[(0, self.correlation_m)]);
        Box::new(build_loo(self.reference, &self.motion, common, intervals, name, seed))
    }

    fn with_estimate(&self) -> ChannelSpec {
        Self { reference: self.reference.estimate(), ..self.clone() }.into()
    }

    fn estimate_error_db(&self) -> f64 {
        self.reference.error_db
    }

    fn time_step(&self) -> Option<Span> {
        Some(Span(self.motion.step_ns))
    }
}

/// Validates the transition probabilities: rows sum to 1 and every state is reachable from every other.
fn check_transitions(rows: &[Vec<f64>]) -> ValidationResult {
    let n = rows.len();
    for row in rows {
        let sum: f64 = row.iter().sum();
        if row.len() != n
            || row.iter().any(|p| !(0.0..=1.0).contains(p))
            || (sum - 1.0).abs() > 1e-6
        {
            return Err(format!(
                "transitions: found {row:?}, expected {n} probabilities with the sum 1"
            ));
        }
    }
    for from in 0..n {
        let mut reached = vec![false; n];
        reached[from] = true;
        for _ in 0..n {
            for state in 0..n {
                if reached[state] {
                    (0..n).filter(|to| rows[state][*to] > 0.0).for_each(|to| reached[to] = true);
                }
            }
        }
        if let Some(to) = reached.iter().position(|reached| !reached) {
            return Err(format!("transitions: no transition path from state {from} to state {to}"));
        }
    }
    Ok(())
}

/// States that are redrawn from a transition matrix after each frame, a distance that depends on the state.
#[derive(Clone, Debug)]
pub(super) struct StateChain {
    transitions: Vec<Vec<f64>>,
    frames_m: Vec<f64>,
    transition_m: f64,
    states: Vec<LooSpec>,
}

impl StateChain {
    pub fn new(spec: &ThreeStateSpec) -> StateChain {
        StateChain {
            transitions: spec.transitions.clone(),
            frames_m: spec.frames_m.clone(),
            transition_m: spec.transition_m,
            states: spec.states.clone(),
        }
    }

    /// Returns the frames of one user, in the stationary distribution from the start.
    pub fn intervals(self, mut random: RandomStream) -> impl Iterator<Item = StateInterval> + Send {
        let mut state =
            select_weighted(&time_shares(&self.transitions, &self.frames_m), random.uniform());
        // The first frame began before the start.
        let mut left = 1.0 - random.uniform();
        std::iter::from_fn(move || {
            let interval = StateInterval {
                length_m: self.frames_m[state] * left,
                transition_m: self.transition_m,
                loo: self.states[state],
            };
            state = select_weighted(&self.transitions[state], random.uniform());
            left = 1.0;
            Some(interval)
        })
    }
}

/// Returns the index that `chance` selects by weight; the weights sum to 1.
fn select_weighted(weights: &[f64], chance: f64) -> usize {
    let mut sum = 0.0;
    let found = weights.iter().position(|weight| {
        sum += weight;
        chance < sum
    });
    // If rounding leaves no match, the last index with a positive weight applies.
    found.or_else(|| weights.iter().rposition(|weight| *weight > 0.0)).unwrap_or(0)
}

/// Returns the time shares: the stationary vector, weighted by the frame length of each state.
fn time_shares(transitions: &[Vec<f64>], frames_m: &[f64]) -> Vec<f64> {
    let mut shares = stationary(transitions);
    for (share, frame) in shares.iter_mut().zip(frames_m) {
        *share *= frame;
    }
    let sum: f64 = shares.iter().sum();
    shares.iter().map(|share| share / sum).collect()
}

/// Returns the stationary vector by the elimination of Grassmann, Taksar and Heyman (Operations Research 33(5), 1985),
/// which avoids subtractions.
fn stationary(transitions: &[Vec<f64>]) -> Vec<f64> {
    let mut p = transitions.to_vec();
    let n = p.len();
    for last in (1..n).rev() {
        let out: f64 = p[last][..last].iter().sum();
        for row in 0..last {
            p[row][last] /= out;
            for column in 0..last {
                p[row][column] += p[row][last] * p[last][column];
            }
        }
    }
    let mut vector = vec![1.0];
    while vector.len() < n {
        let into = vector.iter().zip(&p).map(|(share, row)| share * row[vector.len()]).sum();
        vector.push(into);
    }
    let sum: f64 = vector.iter().sum();
    vector.iter().map(|share| share / sum).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn trees() -> Vec<Vec<f64>> {
        vec![
            vec![0.7193, 0.1865, 0.0942],
            vec![0.1848, 0.7269, 0.0883],
            vec![0.1771, 0.0971, 0.7258],
        ]
    }

    fn near(found: &[f64], expected: &[f64], within: f64) {
        for (found, expected) in found.iter().zip(expected) {
            assert!((found - expected).abs() <= within, "{found}, expected {expected}");
        }
    }

    /// The vectors published with the matrices, to four digits.
    #[test]
    fn the_stationary_vector_is_the_published_one() {
        near(&stationary(&trees()), &[0.3929, 0.3571, 0.25], 1e-4);
        let suburban = vec![
            vec![0.8177, 0.1715, 0.0108],
            vec![0.1544, 0.7997, 0.0459],
            vec![0.1400, 0.1433, 0.7167],
        ];
        near(&stationary(&suburban), &[0.4545, 0.4545, 0.0910], 3e-4);
        near(&stationary(&[vec![0.9259, 0.0741], vec![0.0741, 0.9259]]), &[0.5, 0.5], 1e-12);
        near(&stationary(&[vec![1.0]]), &[1.0], 0.0);
    }

    /// The users' distance shares per state, against the stationary vector weighted by frame length.
    #[test]
    fn shares_of_time_are_weighted_by_the_frames() {
        for (frames, expected) in
            [([6.3, 6.3, 4.5], [0.426, 0.387, 0.187]), ([5.0; 3], [0.393, 0.357, 0.25])]
        {
            // The shares of another implementation in 4,000 s, about 700 intervals per state.
            near(&time_shares(&trees(), &frames), &expected, 6e-3);
            let (users, length_m) = (2_000, 200.0);
            let per_user: Vec<[f64; 3]> =
                (0..users).map(|user| walk(user, &frames, length_m)).collect();
            for state in 0..3 {
                let n = users as f64;
                let mean = per_user.iter().map(|user| user[state]).sum::<f64>() / n;
                let square = per_user.iter().map(|user| user[state] * user[state]).sum::<f64>() / n
                    - mean * mean;
                let error = (square / n).sqrt();
                let expected = time_shares(&trees(), &frames)[state];
                assert!((mean - expected).abs() < 4.0 * error, "{mean} +- {error}, {expected}");
            }
        }
    }

    /// Returns the shares of the states on the first metres of a user's path.
    fn walk(user: u64, frames: &[f64; 3], length_m: f64) -> [f64; 3] {
        let state = |mean_db| LooSpec { mean_db, deviation_db: 0.0, multipath_db: -10.0 };
        let chain = StateChain {
            transitions: trees(),
            frames_m: frames.to_vec(),
            transition_m: 2.6,
            states: vec![state(0.0), state(-1.0), state(-2.0)],
        };
        let (mut shares, mut left) = ([0.0; 3], length_m);
        for visit in chain.intervals(RandomStream::named(user, "test", "states")) {
            let length = visit.length_m.min(left);
            shares[-visit.loo.mean_db as usize] += length / length_m;
            left -= length;
            if left <= 0.0 {
                break;
            }
        }
        shares
    }
}
