"""Published parameters of land-mobile-satellite channels, with their sources."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from bentpipe.scenario.radio_quantities import Frequency

__all__ = ["FONTAN", "FONTAN_BAND", "P681", "ThreeStates", "TwoStates"]


@dataclass(frozen=True)
class ThreeStates:
    """Parameters of the three-state model at one elevation; lengths are metres along the route of the terminal."""

    transitions: Sequence[Sequence[float]]
    """Transition probabilities, by state before and state after."""
    states: Sequence[tuple[float, float, float]]
    """Mean, standard deviation and multipath power of each state, in dB."""
    frames_m: Sequence[float]
    """Length of a frame in each state."""
    transition_m: float
    """Length of a transition between states."""
    correlation_m: float
    """Correlation length of shadowing."""


FONTAN: Mapping[str, Mapping[int, ThreeStates]] = {
    "open": {
        40: ThreeStates(
            [[0.9530, 0.0431, 0.0039], [0.0515, 0.9347, 0.0138], [0.0334, 0.0238, 0.9428]],
            [(0.1, 0.37, -22.0), (-1.0, 0.5, -22.0), (-2.25, 0.13, -21.2)],
            [8.9, 7.5, 4.0],
            12.4,
            2.5,
        )
    },
    "suburban": {
        40: ThreeStates(
            [[0.8177, 0.1715, 0.0108], [0.1544, 0.7997, 0.0459], [0.1400, 0.1433, 0.7167]],
            [(-1.0, 0.5, -13.0), (-3.7, 0.98, -12.2), (-15.0, 5.9, -13.0)],
            [5.2, 3.7, 3.0],
            2.2,
            1.7,
        )
    },
    "intermediate-tree-shadowed": {
        40: ThreeStates(
            [[0.7193, 0.1865, 0.0942], [0.1848, 0.7269, 0.0883], [0.1771, 0.0971, 0.7258]],
            [(-0.4, 1.5, -13.2), (-8.2, 3.9, -12.7), (-17.0, 3.14, -10.0)],
            [6.3, 6.3, 4.5],
            2.6,
            1.5,
        )
    },
    # The line-of-sight state does not occur.
    "heavy-tree-shadowed": {
        40: ThreeStates(
            [[0.9259, 0.0741], [0.0741, 0.9259]],
            [(-10.1, 2.25, -10.0), (-19.0, 4.0, -10.0)],
            [4.8, 4.5],
            3.5,
            1.7,
        )
    },
}
"""F. Perez-Fontan et al., IEEE Trans. Broadcasting 44(1):40-76, 1998, and IEEE Trans. Veh. Tech. 50(6):1549-1567, 2001:
S band.

The values come from public transcriptions: open and suburban from two that agree, the others from one. One of the two
has 0.1314 for the probability of moderate after deep shadowing in suburban; its row does not add up to 1. A test
verifies that all stationary vectors are the published ones to four digits. Missing are urban and other elevations,
whose lengths were illegible, and L band."""

FONTAN_BAND = (Frequency(2 * 10**9), Frequency(4 * 10**9))
"""S band, the band of the measurements."""


@dataclass(frozen=True)
class TwoStates:
    """Parameters of the two-state model at one elevation.

    A state has mu, sigma and minimum length of its log-normal duration (metres), then mean and standard deviation of
    the direct path's mean (dB). h1 and h2 (multipath), g1 and g2 (standard deviation of the direct path) follow.
    """

    good: tuple[float, ...]
    bad: tuple[float, ...]
    correlation_m: float
    """Correlation length."""
    transition_m_per_db: float
    """f1 of a transition."""
    transition_least_m: float
    """f2 of a transition."""
    bad_quantiles: tuple[float, float] = (0.1, 0.9)
    """Quantiles that bound the mean of the bad state."""


P681: Mapping[tuple[Frequency, Frequency], Mapping[str, Mapping[int, TwoStates]]] = {
    (Frequency(1_500_000_000), Frequency(3_000_000_000)): {
        "urban": {
            20: TwoStates(
                (2.0042, 1.2049, 3.9889, -3.3681, 3.3226, 0.1739, -11.5966, 0.0036, 1.323),
                (3.689, 0.9796, 10.3114, -18.1771, 3.2672, 1.1411, 4.0581, -0.2502, -1.2528),
                0.968,
                0.087,
                2.8469,
            ),
            30: TwoStates(
                (2.7332, 1.103, 7.3174, -2.3773, 2.1222, 0.0941, -13.1679, -0.2811, 0.9323),
                (2.7582, 1.221, 5.7276, -17.4276, 3.9532, 0.9175, -0.8009, -0.1484, 0.591),
                1.4731,
                0.1378,
                3.3733,
            ),
            45: TwoStates(
                (3.0639, 1.698, 10.0, -1.8225, 1.1317, -0.0481, -14.745, -0.4643, 0.3334),
                (2.9108, 1.2602, 6.0, -15.4844, 3.3245, 0.9434, -1.7555, -0.0798, 2.8101),
                1.791,
                0.0744,
                2.1423,
            ),
            60: TwoStates(
                (2.8135, 1.5962, 10.0, -1.5872, 1.2446, -0.5168, -17.406, -0.1953, 0.5353),
                (2.0211, 0.6568, 1.9126, -14.1435, 3.2706, 0.6975, -7.5383, 0.0422, 3.203),
                1.7977,
                -0.1285,
                5.4991,
            ),
        },
        "suburban": {
            20: TwoStates(
                (2.2201, 1.2767, 2.2914, -2.7191, 1.384, -0.3037, -13.0719, -0.1254, 0.7894),
                (2.2657, 1.3812, 2.5585, -13.8808, 2.583, 1.0136, 0.5158, -0.1441, 0.7757),
                0.929,
                0.2904,
                1.0324,
            ),
            30: TwoStates(
                (3.0138, 1.4161, 8.3214, -0.7018, 1.2107, -0.6543, -14.6457, -0.1333, 0.8992),
                (2.4521, 0.7637, 5.9087, -11.9823, 3.4728, 0.62, -7.5485, -0.1644, 0.2762),
                1.7135,
                0.1091,
                3.3,
            ),
            45: TwoStates(
                (4.5857, 1.3918, 126.8375, -1.1496, 1.0369, 0.2148, -17.8462, 0.0729, 1.0303),
                (2.2414, 0.7884, 4.3132, -10.3806, 2.3543, 0.0344, -14.2087, 0.0662, 3.5043),
                3.2293,
                0.5766,
                0.7163,
            ),
            60: TwoStates(
                (3.4124, 1.4331, 19.5431, -0.7811, 0.7979, -2.1102, -19.7954, -0.2284, 0.2796),
                (1.9922, 0.7132, 3.1213, -12.1436, 3.1798, 0.4372, -8.3651, -0.2903, -0.6001),
                2.0215,
                -0.4097,
                8.744,
            ),
            70: TwoStates(
                (4.2919, 2.4703, 118.3312, -1.8434, 0.537, -4.7301, -26.5687, 0.5192, 1.9583),
                (2.1012, 1.0341, 4.8569, -12.9383, 1.7588, 2.5318, 16.8468, 0.3768, 8.4377),
                2.0963,
                -0.0826,
                2.8824,
            ),
        },
        "rural-wooded": {
            20: TwoStates(
                (2.1597, 1.3766, 2.0744, -0.8065, 1.5635, -0.917, -12.1228, -0.0348, 0.9571),
                (1.9587, 1.5465, 1.3934, -10.6615, 2.617, 0.844, -1.4804, -0.1069, 1.6141),
                0.8845,
                0.055,
                2.6383,
            ),
            30: TwoStates(
                (2.5579, 1.2444, 3.5947, -1.3214, 1.6645, -1.0445, -14.3176, -0.1656, 0.718),
                (2.3791, 1.1778, 2.28, -10.424, 2.4446, 0.6278, -4.8146, -0.0451, 2.2327),
                1.0942,
                0.0256,
                3.8527,
            ),
            45: TwoStates(
                (3.1803, 1.3427, 6.7673, -0.9902, 1.0348, -0.4235, -16.838, -0.1095, 0.6893),
                (2.5382, 1.1291, 3.3683, -10.2891, 2.309, 0.3386, -9.7118, -0.046, 2.131),
                2.3956,
                0.2803,
                4.0004,
            ),
            60: TwoStates(
                (2.9322, 1.3234, 5.7209, -0.6153, 1.1723, -1.4024, -16.9664, -0.2516, 0.5353),
                (2.1955, 1.1115, 1.6512, -9.9595, 2.2188, 0.2666, -9.0046, -0.0907, 1.473),
                1.7586,
                0.1099,
                4.2183,
            ),
            70: TwoStates(
                (3.8768, 1.4738, 16.0855, -0.7818, 0.7044, -2.9566, -20.0326, -0.2874, 0.405),
                (1.8445, 0.8874, 2.9629, -6.7769, 2.1339, -0.3723, -14.9638, -0.1822, 0.1163),
                1.6546,
                -0.3914,
                6.6931,
            ),
        },
    },
    (Frequency(10_000_000_000), Frequency(20_000_000_000)): {
        "suburban": {
            34: TwoStates(
                (1.0125, 1.6944, 1.5, -0.02, 0.0, 0.0, -38.17, 0.0, 0.39),
                (-0.8026, 1.288, 1.1, -5.4, 7.3, 0.69, -15.97, -0.21, 0.0),
                0.5,
                0.036,
                0.8,
                (0.1, 0.6),
            ),
        },
        "rural": {
            34: TwoStates(
                (1.7663, 1.935, 0.9, 0.05, 0.0, 0.0, -40.25, 0.0, 0.39),
                (-0.4722, 1.7232, 0.8, -16.0, 10.4, 0.87, -14.26, -0.21, 0.0),
                0.5,
                0.088,
                1.21,
            ),
        },
    },
}
"""Recommendation ITU-R P.681-10/-11, section 6.2, by band, environment and elevation.

The values come from one transcription (a public C++ model for INET) and were not compared with the Recommendation.
The table lacks the band of 3 to 5 GHz. It also lacks village and residential, which were illegible, and urban at 70
degrees. For the latter the source repeats the values of suburban."""
