"""Load strings as parsed, and the load keys of a scenario."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bentpipe.scenario.flow.perf_string import DataAmount, LoadError, Stream, TimeAmount, parse
from bentpipe.scenario.quantities import Duration


def seconds(number: int) -> TimeAmount:
    return TimeAmount(Duration(number * 10**9), "up")


def test_time_mode_is_client_to_server() -> None:
    assert parse("T:*1:0:-:60s;") == (Stream(0, None, seconds(60)),)


def test_the_last_semicolon_is_optional_and_two_dashes_are_one() -> None:
    assert parse("T:*1:0:--:60s") == parse("T:*1:0:-:60s;")
    assert parse("T:*1:-:-:60s") == parse("T:*1:0:-:60s;")


def test_data_mode_names_the_bytes_of_the_client_then_of_the_server() -> None:
    assert parse("D:*1:0:-:100000:10000000") == (Stream(0, None, DataAmount(100_000, 10_000_000)),)


def test_repeated_ids_go_up_by_four_and_a_later_part_may_wait_for_one() -> None:
    assert parse("T:*2:0:-:60s;D:*1:8:0:100000:100000") == (
        Stream(0, None, seconds(60)),
        Stream(4, None, seconds(60)),
        Stream(8, 0, DataAmount(100_000, 100_000)),
    )


def test_without_an_id_the_next_free_one_is_taken() -> None:
    assert [stream.stream_id for stream in parse("T:*2:-:-:1s;D:*2:-:-:8:8")] == [0, 4, 8, 12]


@pytest.mark.parametrize(("text", "ns"), [("5s", 5 * 10**9), ("500ms", 5 * 10**8), ("200us", 200_000)])
def test_times_are_in_s_ms_or_us(text: str, ns: int) -> None:
    (stream,) = parse(f"T:*1:0:-:{text}")
    assert stream.amount == TimeAmount(Duration(ns), "up")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", ["empty", "T:*1:0:-:60s"]),
        ("X:*1:0:-:60s", ['found "X"', "T (time mode) or D (data mode)"]),
        ("t:*1:0:-:60s", ['did you mean "T"']),
        ("*1:0:-:1000:1000", ['did you mean "D:*1:0:-:1000:1000"']),
        ("T:1:0:-:60s", ["asterisk", 'did you mean "*1"']),
        ("T:*0:0:-:60s", ["repeat count of 0"]),
        ("T:*1:0:-", ["found 4 fields, expected 5"]),
        ("D:*1:0:-:1000", ["found 5 fields, expected 6"]),
        ("T:*1:3:-:60s", ["multiple of 4", "did you mean 0"]),
        ("T:*1:0:-:60", ['did you mean "60s"']),
        ("T:*1:0:-:60min", ["expected a time"]),
        ("T:*1:0:-:0s", ["above 0"]),
        ("T:*2:0:-:60s;D:*1:4:-:8:8", ["stream 4 is already used", "did you mean 8"]),
        ("D:*1:0:4:8:8", ["waits for stream 4, which does not exist"]),
        ("D:*1:0:4:8:8;D:*1:4:0:8:8", ["waits for itself"]),
        ("D:*1:0:-:7:1000", ["fewer than 8 bytes before FIN: no response", 'did you mean "8:1000"']),
        ("D:*1:0:-:0:0", ["0 bytes both ways"]),
        ("D:*1:0:-:x:8", ["whole number of bytes"]),
    ],
)
def test_a_malformed_string_is_refused_with_what_was_expected(text: str, message: list[str]) -> None:
    with pytest.raises(LoadError) as error:
        parse(text)
    for words in message:
        assert words in str(error.value)


@given(st.lists(st.tuples(st.integers(1, 5), st.booleans(), st.integers(8, 10**9)), min_size=1, max_size=6))
def test_ids_are_different_multiples_of_four_in_order(parts: list[tuple[int, bool, int]]) -> None:
    text = ";".join(
        f"T:*{n}:-:-:{size}us" if timed else f"D:*{n}:-:-:{size}:{size}" for n, timed, size in parts
    )
    ids = [stream.stream_id for stream in parse(text)]
    assert ids == [4 * index for index in range(sum(n for n, _, _ in parts))]


@given(st.text(alphabet="TD:*-;0123456789sm u", max_size=40))
def test_any_text_is_parsed_or_refused(text: str) -> None:
    try:
        streams = parse(text)
    except LoadError:
        return
    assert streams
