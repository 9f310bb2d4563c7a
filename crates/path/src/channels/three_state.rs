//! The land-mobile-satellite channel of Perez-Fontan: a Markov chain of shadowing states, Loo's fading in each
//! (F. Perez-Fontan et al., IEEE Trans. Broadcasting 44(1), 1998; IEEE Trans. Veh. Tech. 50(6), 2001).

use units::RandomStream;

use super::loo::Visit;
use super::{LooSpec, ThreeStateSpec};

/// States that are redrawn from a transition matrix after each frame, a length of the way that is the state's own.
#[derive(Clone, Debug)]
pub(super) struct Chain {
    transitions: Vec<Vec<f64>>,
    frames_m: Vec<f64>,
    transition_m: f64,
    states: Vec<LooSpec>,
}

impl Chain {
    pub fn new(spec: &ThreeStateSpec) -> Chain {
        Chain {
            transitions: spec.transitions.clone(),
            frames_m: spec.frames_m.clone(),
            transition_m: spec.transition_m,
            states: spec.states.clone(),
        }
    }

    /// The frames of one user, from anywhere on a way that has always been.
    pub fn visits(self, mut random: RandomStream) -> impl Iterator<Item = Visit> + Send {
        let mut state = choose(&shares(&self.transitions, &self.frames_m), random.uniform());
        // The first frame has begun before.
        let mut left = 1.0 - random.uniform();
        std::iter::from_fn(move || {
            let visit = Visit {
                length_m: self.frames_m[state] * left,
                transition_m: self.transition_m,
                loo: self.states[state],
            };
            state = choose(&self.transitions[state], random.uniform());
            left = 1.0;
            Some(visit)
        })
    }
}

/// The index that `chance` chooses, each with its weight; the weights add up to 1.
fn choose(weights: &[f64], chance: f64) -> usize {
    let mut sum = 0.0;
    let found = weights.iter().position(|weight| {
        sum += weight;
        chance < sum
    });
    // Rounding may leave nobody: the last who has any weight.
    found.or_else(|| weights.iter().rposition(|weight| *weight > 0.0)).unwrap_or(0)
}

/// Shares of time: the stationary vector, each state weighted by the length of its frame.
fn shares(transitions: &[Vec<f64>], frames_m: &[f64]) -> Vec<f64> {
    let mut shares = stationary(transitions);
    for (share, frame) in shares.iter_mut().zip(frames_m) {
        *share *= frame;
    }
    let sum: f64 = shares.iter().sum();
    shares.iter().map(|share| share / sum).collect()
}

/// The stationary vector by the elimination of Grassmann, Taksar and Heyman (Operations Research 33(5), 1985), which
/// subtracts nothing.
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

    /// The vectors that are published beside the matrices, to their four digits.
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

    /// Shares of the way on which the users are, against the vector weighted by the frames' lengths.
    #[test]
    fn shares_of_time_are_weighted_by_the_frames() {
        for (frames, expected) in
            [([6.3, 6.3, 4.5], [0.426, 0.387, 0.187]), ([5.0; 3], [0.393, 0.357, 0.25])]
        {
            // What another implementation met in 4,000 s, about 700 visits of each state.
            near(&shares(&trees(), &frames), &expected, 6e-3);
            let (users, way) = (2_000, 200.0);
            let per_user: Vec<[f64; 3]> = (0..users).map(|user| walk(user, &frames, way)).collect();
            for state in 0..3 {
                let n = users as f64;
                let mean = per_user.iter().map(|user| user[state]).sum::<f64>() / n;
                let square = per_user.iter().map(|user| user[state] * user[state]).sum::<f64>() / n
                    - mean * mean;
                let error = (square / n).sqrt();
                let expected = shares(&trees(), &frames)[state];
                assert!((mean - expected).abs() < 4.0 * error, "{mean} +- {error}, {expected}");
            }
        }
    }

    /// Shares of states on the first metres of a user's way.
    fn walk(user: u64, frames: &[f64; 3], way_m: f64) -> [f64; 3] {
        let state = |mean_db| LooSpec { mean_db, deviation_db: 0.0, multipath_db: -10.0 };
        let chain = Chain {
            transitions: trees(),
            frames_m: frames.to_vec(),
            transition_m: 2.6,
            states: vec![state(0.0), state(-1.0), state(-2.0)],
        };
        let (mut shares, mut left) = ([0.0; 3], way_m);
        for visit in chain.visits(RandomStream::named(user, "test", "states")) {
            let length = visit.length_m.min(left);
            shares[-visit.loo.mean_db as usize] += length / way_m;
            left -= length;
            if left <= 0.0 {
                break;
            }
        }
        shares
    }
}
