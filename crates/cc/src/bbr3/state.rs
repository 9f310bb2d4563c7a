//! BBR.state with its gains (section 5.6.1), and the phase to which arriving ACKs belong.

/// BBR.state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum BbrState {
    Startup,
    Drain,
    ProbeBwDown,
    ProbeBwCruise,
    ProbeBwRefill,
    ProbeBwUp,
    ProbeRtt,
}

use BbrState::*;

impl BbrState {
    /// BBR.pacing_gain.
    pub fn pacing_gain(self) -> f64 {
        match self {
            Startup => 2.77, // 4 ln 2
            Drain => 0.5,
            ProbeBwDown => 0.9,
            ProbeBwCruise | ProbeBwRefill | ProbeRtt => 1.0,
            ProbeBwUp => 1.25,
        }
    }

    /// BBR.cwnd_gain.
    pub fn cwnd_gain(self) -> f64 {
        match self {
            ProbeBwUp => 2.25,
            ProbeRtt => 0.5,
            _ => 2.0,
        }
    }

    /// IsInAProbeBWState.
    pub fn is_probe_bw(self) -> bool {
        matches!(self, ProbeBwDown | ProbeBwCruise | ProbeBwRefill | ProbeBwUp)
    }

    /// IsProbingBW: these states expect loss, so that loss does not lower the short-term bounds.
    pub fn is_probing(self) -> bool {
        matches!(self, Startup | ProbeBwRefill | ProbeBwUp)
    }
}

/// BBR.ack_phase.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum AckPhase {
    #[default]
    Init,
    ProbeStopping,
    Refilling,
    ProbeStarting,
    ProbeFeedback,
}
