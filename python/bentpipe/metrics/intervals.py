"""Confidence intervals of means, medians and paired statistics over seeds.

All functions are pure and deterministic: equal values in equal order give the same interval on every machine. The
bounds are ``None`` if the values do not determine them (one seed, or too few for an order statistic). Functions import
SciPy and NumPy locally, because importing them costs more than the rest of the command line.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from dataclasses import dataclass

CONFIDENCE = 0.95
"""Default level of all intervals."""

MIN_MEDIAN_VALUES = 6
"""Smallest number of values whose median has a distribution-free interval at :data:`CONFIDENCE`: 2 / 2^6 is 3.1 %."""

RESAMPLES = 2000
"""Bootstrap resamples; Efron and Tibshirani (1993), section 13.3, require at least 1000 for a 95 % interval."""


@dataclass(frozen=True, slots=True)
class ConfidenceInterval:
    """Estimate from ``n`` values with its interval, in the unit of the values."""

    estimate: float
    low: float | None
    high: float | None
    n: int

    @property
    def known(self) -> bool:
        """Whether both bounds are known."""
        return self.low is not None and self.high is not None


def format_significant(value: float | None, digits: int = 4) -> str:
    """Format ``value`` to ``digits`` significant digits; None and NaN are a dash.

    The integer part keeps all its digits: 12345.6 is ``12346``, not ``12350``.
    """
    if value is None or math.isnan(value):
        return "–"
    if value == 0:
        return "0"
    if math.isinf(value):
        return "∞" if value > 0 else "-∞"
    magnitude = math.floor(math.log10(abs(value)))
    decimals = max(0, digits - 1 - magnitude)
    if magnitude < -4 or magnitude >= 15:
        return f"{value:.{digits - 1}e}"
    text = f"{value:.{decimals}f}"
    return text.rstrip("0").rstrip(".") if "." in text else text


def round_significant(value: float | None, digits: int = 6) -> float | None:
    """Round ``value`` to ``digits`` significant digits for JSON; None for NaN and infinity."""
    if value is None or math.isnan(value) or math.isinf(value):
        return None
    return float(f"{value:.{digits - 1}e}")


def median(values: Sequence[float]) -> float:
    """Return the median; of an even number of values, the mean of the two in the middle.

    Raises:
        ValueError: ``values`` is empty.
    """
    if not values:
        raise ValueError("the median of no values")
    ordered = sorted(values)
    middle = len(ordered) // 2
    return ordered[middle] if len(ordered) % 2 else (ordered[middle - 1] + ordered[middle]) / 2


@functools.cache
def median_ranks(n: int, confidence: float = CONFIDENCE) -> tuple[int, int] | None:
    """Return the ranks (from 1) of the order statistics that enclose the median with at least ``confidence``.

    Source: Le Boudec, Performance Evaluation of Computer and Communication Systems (2010), theorem 2.1. For any
    distribution, P(x_(j) <= median <= x_(k)) >= P(j <= B <= k - 1) with B binomial(n, 1/2). The result is the innermost
    symmetric pair (k = n + 1 - j). It is ``None`` if even the extremes do not reach ``confidence``: at 95 %, with fewer
    than 6 values.
    """
    if n < 2:
        return None
    rank, exact = n // 2, n <= MAX_EXACT_VALUES
    whole = 1 << n if exact else 1.0
    term = math.comb(n, rank) if exact else _central_probability(n)
    inside = term if n % 2 == 0 else 2 * term  # for odd n the two middle terms are equal
    while 1 - (whole - inside) / whole < confidence:
        if rank == 1:
            return None
        term = term * rank // (n - rank + 1) if exact else term * rank / (n - rank + 1)
        rank -= 1
        inside += 2 * term
    return rank, n + 1 - rank


MAX_EXACT_VALUES = 10_000
"""Largest sample with exact integer binomial coefficients; the central one takes 0.2 s for 10^5 values."""


def _central_probability(n: int) -> float:
    """Return P(B = n // 2) for B binomial(n, 1/2) and large ``n``, to the last digit of a float.

    Stirling's series (DLMF 5.11.1) of the central binomial coefficient of 2 m. For odd ``n`` the value of n + 1 holds,
    because C(n + 1, (n + 1) / 2) = 2 C(n, n // 2).
    """
    m = (n + 1) // 2
    return math.exp(-1 / (8 * m) + 1 / (192 * m**3)) / math.sqrt(math.pi * m)


def median_ci(values: Sequence[float], confidence: float = CONFIDENCE) -> ConfidenceInterval:
    """Return the median with its order-statistic interval (:func:`median_ranks`).

    The interval assumes only independent values.
    """
    ordered = sorted(values)
    ranks = median_ranks(len(ordered), confidence)
    if ranks is None:
        return ConfidenceInterval(median(ordered), None, None, len(ordered))
    return ConfidenceInterval(median(ordered), ordered[ranks[0] - 1], ordered[ranks[1] - 1], len(ordered))


STUDENT_T = (
    12.706204736174694, 4.302652729749462, 3.1824463052837078, 2.7764451051977934, 2.5705818356363146,
    2.4469118511449786, 2.364624251592784, 2.306004135204166, 2.262157162798205, 2.228138851986274,
    2.200985160091639, 2.1788128296672284, 2.1603686564627913, 2.144786687917804, 2.131449545559776,
    2.1199052992212546, 2.1098155778333156, 2.1009220402410382, 2.0930240544083087, 2.085963447265864,
    2.0796138447276795, 2.0738730679040254, 2.0686576104190486, 2.0638985616280245, 2.0595385527532972,
    2.0555294386428735, 2.0518305164802846, 2.0484071417952454, 2.045229642132703, 2.0422724563012378,
    2.039513446396408, 2.0369333434601016, 2.0345152974493383, 2.0322445093177186, 2.030107928250343,
    2.0280940009804502, 2.0261924630291093, 2.0243941639119694, 2.022690920036761, 2.021075390306273,
    2.019540970441376, 2.0180817028184443, 2.016692199227824, 2.0153675744437636, 2.014103388880846,
    2.012895598919429, 2.0117405137297655, 2.010634757624232, 2.0095752371292392, 2.008559112100761,
    2.007583770315836, 2.006646805061688, 2.0057459953178687, 2.0048792881880564, 2.0040447832891455,
    2.003240718847872, 2.002465459291007, 2.0017174841452356, 2.000995378088267, 2.0002978220142604,
    1.999623584994939, 1.9989715170333788, 1.998340542520741, 1.997729654317693, 1.9971379083920038,
    1.9965644189523117, 1.996008354025296, 1.9954689314298435, 1.9949454151072374, 1.994437111771186,
    1.9939433678456255, 1.9934635666618719, 1.992997125889855, 1.992543495180932, 1.9921021540022417,
    1.9916726096446642, 1.9912543953883846, 1.9908470688116906, 1.9904502102301285, 1.990063421254446,
    1.9896863234569029, 1.989318557136572, 1.9889597801751624, 1.9886096669757083, 1.9882679074772216,
    1.98793420623902, 1.9876082815890708, 1.9872898648311692, 1.986978699506281, 1.9866745407037683,
    1.9863771544186177, 1.98608631695113, 1.9858018143458227, 1.985523441866604, 1.9852510035054978,
    1.984984311522457, 1.9847231860139845, 1.9844674545084815, 1.9842169515864174, 1.9839715185235518,
    1.983731002955606, 1.9834952585628793, 1.9832641447734565, 1.9830375264837259, 1.9828152737950475,
    1.9825972617655006, 1.9823833701756908, 1.982173483307727, 1.9819674897364825, 1.981765282132372,
    1.9815667570749007, 1.9813718148763053, 1.981180359414661, 1.9809922979758567, 1.9808075411039094,
    1.9806260024590894, 1.9804475986834025, 1.980272249272974, 1.9800998764569397, 1.9799304050824402,
    1.9797637625053868, 1.9795998784866382, 1.9794386850933035, 1.9792801166048548, 1.9791241094237977,
    1.9789706019906281, 1.9788195347028539, 1.978670849837835, 1.9785244914792577, 1.9783804054470222,
    1.9782385392303798, 1.9780988419241303, 1.9779612641677262, 1.9778257580871244, 1.9776922772392527,
    1.977560776558935, 1.9774312123081748, 1.9773035420276506, 1.977177724490333, 1.9770537196570985,
    1.9769314886342528, 1.9768109936328597, 1.976692197929798, 1.9765750658304433, 1.9764595626329178,
    1.9763456545938125, 1.976233308895327, 1.9761224936137445, 1.976013177689192, 1.9759053308966201,
    1.9757989238179392, 1.97569392781527, 1.9755903150052492, 1.9754880582343404, 1.9753871310551152,
    1.9752875077034489, 1.9751891630765912, 1.9750920727120844, 1.9749962127674756, 1.9749015600007986,
    1.974808091751787, 1.974715785923791, 1.974624620966361, 1.9745345758584756, 1.9744456300923825,
    1.9743577636580294, 1.9742709570280557, 1.9741851911433248, 1.9741004473989765, 1.9740167076309703,
    1.973933954103107, 1.9738521694945061, 1.973771336887522, 1.9736914397560734, 1.9736124619543842,
    1.9735343877061042, 1.9734572015938032, 1.9733808885488238, 1.9733054338414737, 1.9732308230715456,
    1.9731570421591593, 1.973084077335903, 1.973011915136267, 1.9729405423893598, 1.9728699462108963,
    1.9728001139954416, 1.9727310334089099, 1.9726626923813002, 1.9725950790996682, 1.972528182001318,
    1.972461989767211, 1.9723964913155805, 1.9723316757957499, 1.9722675325821355, 1.9722040512684433,
    1.9721412216620415, 1.9720790337785026, 1.9720174778363146, 1.9719565442517533, 1.9718962236339088,
)  # fmt: skip
"""``scipy.special.stdtrit(degrees, 0.975)`` of 1 to 200 degrees of freedom.

Importing SciPy for one number takes longer than ``bentpipe show``. test_statistics.py compares every entry.
"""


def t_quantile(confidence: float, degrees: int) -> float:
    """Return the two-sided quantile of Student's t distribution."""
    if confidence == CONFIDENCE and 1 <= degrees <= len(STUDENT_T):
        return STUDENT_T[degrees - 1]
    from scipy.special import stdtrit

    return float(stdtrit(degrees, 0.5 + confidence / 2))


def mean_ci(values: Sequence[float], confidence: float = CONFIDENCE) -> ConfidenceInterval:
    """Return the mean with Student's t interval over independent values (seeds).

    A single value has no interval. Equal values have an interval of width 0.

    Raises:
        ValueError: ``values`` is empty.
    """
    n = len(values)
    if n == 0:
        raise ValueError("the mean of no values")
    mean = math.fsum(values) / n
    if n == 1:
        return ConfidenceInterval(mean, None, None, 1)
    variance = math.fsum((value - mean) ** 2 for value in values) / (n - 1)
    half = t_quantile(confidence, n - 1) * math.sqrt(variance / n) if variance > 0 else 0.0
    return ConfidenceInterval(mean, mean - half, mean + half, n)


def mean_columns(name: str, values: Sequence[float]) -> dict[str, float | int | None]:
    """Return :func:`mean_ci` of ``values`` as columns ``NAME, NAME_low, NAME_high, NAME_n``.

    Without values, the first three are None and ``NAME_n`` is 0.
    """
    found = mean_ci(values) if values else None
    ends = (None, None, None) if found is None else (found.estimate, found.low, found.high)
    return dict(zip((name, f"{name}_low", f"{name}_high"), ends, strict=True)) | {f"{name}_n": len(values)}
