"""Quantities with units: exact values, and errors that say what was expected and what is near."""

import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bentpipe.scenario.quantities import (
    Duration,
    Probability,
    QueueSize,
    Rate,
    Size,
    UnitError,
    WindowSize,
)
from bentpipe.scenario.quantity_text import nearest


@pytest.mark.parametrize(
    ("text", "ns"),
    [
        ("250 ms", 250_000_000),
        ("0.1us", 100),
        ("1.5 s", 1_500_000_000),
        ("2 min", 120 * 10**9),
        (0, 0),
        ("0", 0),
    ],
)
def test_durations_are_whole_nanoseconds(text: object, ns: int) -> None:
    assert Duration.parse(text).ns == ns


@pytest.mark.parametrize(
    ("text", "bit_s"),
    [
        ("10 Mbit/s", 10_000_000),
        ("10 Mb/s", 10_000_000),
        ("0.3 kbit/s", 300),
        ("1 Gbit/s", 10**9),
        ("8 bit/s", 8),
    ],
)
def test_rates_are_whole_bits_per_second(text: str, bit_s: int) -> None:
    assert Rate.parse(text).bit_s == bit_s


def test_sizes_know_powers_of_ten_and_of_two() -> None:
    assert Size.parse("5.3 MB").bytes == 5_300_000
    assert Size.parse("1.5 KiB").bytes == 1536


def test_a_percentage_is_the_nearest_float_of_its_decimal_value() -> None:
    assert Probability.parse("0.01 %").value == 0.0001
    assert Probability.parse("100 ppm").value == 0.0001
    assert Probability.parse(0).value == 0.0


@pytest.mark.parametrize(
    ("kind", "found", "message"),
    [
        (Duration, "250", ["without a unit", '"250 ms"']),
        (Duration, 250, ["without a unit", '"250 ms"']),
        (Duration, "250 msec", ['no unit "msec"', 'did you mean "250 ms"']),
        (Duration, "-1 s", ["negative"]),
        (Duration, "0.1 ns", ["finer than 1 ns"]),
        (Duration, "fast", ['found "fast"', "expected a duration"]),
        (Duration, True, ["found true"]),
        (Duration, "1e30 s", ["too large"]),
        (Duration, "1e9999999 s", ["too large"]),
        (Duration, "1e-9999999 s", ["too small"]),
        (Duration, f"1e{'9' * 30} s", ["too large"]),
        (Duration, "2 d", ['no unit "d"', 'did you mean "48 h"']),
        (Rate, "5 MB/s", ['no unit "MB/s"', 'did you mean "40 Mbit/s"']),
        (Rate, "5 MBps", ['did you mean "40 Mbit/s"']),
        (Rate, "5 Mbytes/s", ['did you mean "40 Mbit/s"']),
        (Rate, "1 MiB/s", ['did you mean "8388.608 kbit/s"']),
        (Rate, "1 Tbit/s", ['did you mean "1000 Gbit/s"']),
        (Rate, "5 MB", ['did you mean "40 Mbit/s"']),
        (Rate, "5 mb/s", ['did you mean "5 Mb/s"']),
        (Size, "5 Mbit", ['did you mean "625 kB"']),
        (Size, "1 TB", ['did you mean "1000 GB"']),
        (QueueSize, "8 kbit", ['did you mean "1 kB"']),
        (QueueSize, "1e99999 BDP", ["too large"]),
        (WindowSize, "8 kbit", ['did you mean "1 kB"']),
        (WindowSize, "1e99999 packets", ["too large"]),
        (Probability, "1e-99999 %", ["too small"]),
        (Rate, "10", ["without a unit", 'did you mean "10 Mbit/s"']),
        (Rate, "10 Mbps", ['no unit "Mbps"', "did you mean"]),
        (Rate, "10 Mbits/s", ['did you mean "10 Mbit/s"']),
        (Rate, "-10 Mbit/s", ["negative", "expected a rate above 0"]),
        (Rate, "0 Mbit/s", ["expected a rate above 0"]),
        (Size, "1 mb", ['did you mean "1 MB"']),
        (Size, "0.5 B", ["finer than 1 B"]),
        (Probability, "120 %", ["0 % to 100 %"]),
        (Probability, "-1 %", ["0 % to 100 %"]),
        (Probability, 0.01, ["without a unit", '"0.01 %" or "1 %"']),
        (Probability, "5", ["without a unit", 'did you mean "5 %"?']),
        (Probability, "1 percent", ['did you mean "1 %"']),
        (QueueSize, "0 packets", ["a queue of 0", '"1 BDP"']),
        (QueueSize, 0, ["a queue of 0"]),
        (QueueSize, "417", ["without a unit", 'did you mean "417 packets"']),
        (QueueSize, "1 bdp", ['did you mean "1 BDP"']),
        (QueueSize, "1.5 packets", ["whole number of packets"]),
        (WindowSize, "0 packets", ["above 0"]),
        (WindowSize, "10", ['did you mean "10 packets"']),
    ],
)
def test_errors_say_what_was_found_expected_and_near(
    kind: type[Duration], found: object, message: list[str]
) -> None:
    with pytest.raises(UnitError) as error:
        kind.parse(found)
    for words in message:
        assert words in str(error.value)


def test_a_queue_of_one_bdp_is_rate_times_round_trip() -> None:
    rate, rtt = Rate.parse("10 Mbit/s"), Duration.parse("500 ms")
    assert QueueSize.parse("1 BDP").bytes_at(rate, rtt) == 625_000
    assert QueueSize.parse("100 ms").bytes_at(rate, rtt) == 125_000
    assert QueueSize.parse("64 kB").bytes_at(rate, rtt) == 64_000
    assert QueueSize.parse("417 packets").bytes_at(rate, rtt) is None
    assert [str(QueueSize.parse(t)) for t in ("1.5 BDP", "417 packets", "none")] == [
        "1.5 BDP",
        "417 packets",
        "none",
    ]


@pytest.mark.parametrize(("kind", "found"), [(Rate, "0.3 B/s"), (Size, "3 bit"), (Rate, "1e40 TB/s")])
def test_a_missing_translation_is_not_replaced_by_its_neighbour(kind: type[Rate], found: str) -> None:
    with pytest.raises(UnitError, match="no unit") as error:
        kind.parse(found)
    assert "did you mean" not in str(error.value)


@given(
    st.sampled_from(["0.3", "7e9", "1e25", "1e-25", "1e40", "1e400", "1e-400", "1e99999999"]),
    st.text(max_size=4),
)
@pytest.mark.parametrize("kind", [Duration, Rate, Size, Probability, QueueSize, WindowSize])
def test_any_input_gives_a_value_or_a_sentence(kind: type[Duration], number: str, unit: str) -> None:
    for one in [unit, *getattr(kind, "units", ()), "BDP", "packets"]:
        with contextlib.suppress(UnitError):
            assert kind.parse(f"{number} {one}") is not None


def test_a_queue_has_a_bound_that_a_queue_can_have() -> None:
    rate, rtt = Rate.parse("10 Mbit/s"), Duration.parse("500 ms")
    for text in ("1e30 BDP", "1e9 BDP", "100000 h", "70000 GB"):
        with pytest.raises(
            UnitError, match=r"expected at most 65535 GB, or .none. for a queue without bound"
        ):
            QueueSize.parse(text).bytes_at(rate, rtt)


def test_the_nearest_word_ignores_case_and_may_be_missing() -> None:
    assert nearest("Seed", ["seeds", "title"]) == "seeds"
    assert nearest("xyzzy", ["seeds", "title"]) is None
