"""Logs that ``bentpipe fit`` reads, and those that it refuses in one message with the line."""

from __future__ import annotations

import gzip
import json
import math
from pathlib import Path

import pytest

from bentpipe.fit.log_formats import Side
from bentpipe.fit.log_reader import read
from commands import bentpipe


def written(tmp_path: Path, name: str, text: str) -> Path:
    path = tmp_path / name
    path.write_text(text)
    return path


PING = """PING 1.1.1.1 (1.1.1.1) 56(84) bytes of data.
[1700000000.040000] 64 bytes from 1.1.1.1: icmp_seq=65534 ttl=57 time=40.0 ms
no answer yet for icmp_seq=65535
[1700000002.050000] 64 bytes from 1.1.1.1: icmp_seq=0 ttl=57 time=50.0 ms
[1700000002.052000] 64 bytes from 1.1.1.1: icmp_seq=0 ttl=57 time=52.0 ms (DUP!)
[1700000003.100000] 64 bytes from 1.1.1.1: icmp_seq=1 ttl=57 time=100 ms
"""


def test_pings_have_the_time_of_sending_and_losses_by_their_numbers(tmp_path: Path) -> None:
    found = read(written(tmp_path, "p.txt", PING))
    assert (found.kind, found.one_way) == ("ping", False)
    assert found.at_s == pytest.approx([1_700_000_000, 1_700_000_001, 1_700_000_002, 1_700_000_003])
    assert found.delay_ms == [40.0, None, 50.0, 100.0]
    packed = tmp_path / "p.txt.gz"
    packed.write_bytes(gzip.compress(PING.encode()))
    assert read(packed).delay_ms == found.delay_ms


def iperf3(first_s: float = 5.8e-05, omit: int | None = 1, omitted: int = 1, **other: object) -> str:
    """A download with ``-O`` as 3.9 writes it: ``start`` begins at 0 again (``first_s``) behind ``omitted`` seconds."""
    before = [{"start": at, "end": at + 1, "bits_per_second": 5e6, "omitted": True} for at in range(omitted)]
    after = {"start": first_s, "end": first_s + 1, "bits_per_second": 7e6, "omitted": False}
    test = {"reverse": 1} if omit is None else {"reverse": 1, "omit": omit}
    document = {
        "start": {"timestamp": {"timesecs": 1_700_000_000}, "test_start": test},
        "intervals": [{"sum": one} for one in (*before, after)],
    }
    return json.dumps({**document, **other}, indent=1)


@pytest.mark.parametrize(
    ("text", "at_s"),
    [
        (iperf3(), 1),
        (iperf3(omit=3, omitted=3), 3),
        (iperf3(omit=None, omitted=3), 3),
        (iperf3(omit=3, omitted=1), 3),  # with -i 2: the third second has no interval of its own
        (iperf3(omit=3, omitted=0), 3),
        (iperf3(omit=0, omitted=0), 0),
        (iperf3(first_s=1), 1),  # a version that continues to count
        (iperf3(first_s=3.00002, omit=None, omitted=3), 3),
        (iperf3(first_s=3.00002, omit=3, omitted=0), 3),
    ],
)
def test_iperf3_says_which_direction_and_what_it_omits_takes_time(
    tmp_path: Path, text: str, at_s: float
) -> None:
    found = read(written(tmp_path, "i.json", text))
    ((side, (times, rates)),) = found.rates.items()
    assert (side, rates) == ("down", [7e6])
    assert times == pytest.approx([1_700_000_000 + at_s], abs=1e-4, rel=0)


def test_omitted_seconds_delay_both_directions(tmp_path: Path) -> None:
    intervals = [
        f'"sum": {total(at, 2e6, sender=True, omitted=omitted)}, '
        f'"sum_bidir_reverse": {total(at, 3e6, sender=False, omitted=omitted)}'
        for at, omitted in ((0, True), (1, True), (0, False), (1, False))
    ]
    found = read(written(tmp_path, "b.json", document(*intervals)))
    times = [1_700_000_002, 1_700_000_003]
    assert found.rates == {"up": (times, [2e6, 2e6]), "down": (times, [3e6, 3e6])}


def total(at: float, rate: float, *, sender: bool, length: float = 1, **more: object) -> str:
    """A sum as iperf3 writes it since 3.7; the sender's has retransmissions."""
    found = {"start": at, "end": at + length, "bytes": int(rate * length / 8), "bits_per_second": rate}
    if sender:
        found["retransmits"] = 0
    return json.dumps({**found, "omitted": False, "sender": sender} | more)


def document(*intervals: str, role: str = "connecting_to", begin: int = 1_700_000_000, **more: object) -> str:
    """A file of ``iperf3 --json``; a server's has ``accepted_connection`` for ``connecting_to``."""
    test = {"protocol": "TCP", "num_streams": 1, "reverse": 0}
    start = {"timestamp": {"timesecs": begin}, role: {}, "test_start": test, "tcp_mss_default": 1000}
    rest = "".join(f", {json.dumps(key)}: {json.dumps(value)}" for key, value in more.items())
    listed = ", ".join(f"{{{one}}}" for one in intervals)
    return f'{{"start": {json.dumps(start)}, "intervals": [{listed}]{rest}}}\n'


BOTH = ("sum", "sum_bidir_reverse")
"""Keys of the client's direction and of the server's since 3.11 (esnet/iperf, pull request 1200)..."""
TWICE = ("sum", "sum")
"""... and of 3.7 to 3.10 (issue 952)."""


@pytest.mark.parametrize("keys", [BOTH, TWICE])
@pytest.mark.parametrize("role", ["connecting_to", "accepted_connection"])
def test_bidirectional_sums_of_every_version_have_their_directions(
    tmp_path: Path, keys: tuple[str, str], role: str
) -> None:
    """The client sends 2, then 3 Mbit/s and receives 30, then 40; the file of each host has its sending rate."""
    client = role == "connecting_to"
    intervals = [
        f'"{keys[0]}": {total(at, up, sender=client)}, "{keys[1]}": {total(at, down, sender=not client)}'
        for at, (up, down) in enumerate([(2e6, 30e6), (3e6, 40e6)])
    ]
    found = read(written(tmp_path, "b.json", document(*intervals, role=role)))
    times = [1_700_000_000, 1_700_000_001]
    assert found.rates == {"up": (times, [2e6, 3e6]), "down": (times, [30e6, 40e6])}
    sent: Side = "up" if client else "down"
    other: Side = "down" if client else "up"
    assert len(found.transfers[sent].intervals) == 2, "only the sender knows its retransmissions"
    assert found.transfers[other].intervals == []


def test_retransmissions_are_counted_in_segments(tmp_path: Path) -> None:
    """The sender's by intervals, the receiver's in sum, the server's output by intervals again."""
    end = {"sum_sent": {"bytes": 9_000, "retransmits": 4, "sender": False}, "sender_tcp_congestion": "cubic"}
    receiver = document(f'"sum": {total(0, 8e3, sender=False)}', end=end)
    found = read(written(tmp_path, "r.json", receiver)).transfers["down"]
    assert (found.congestion, found.intervals, found.whole) == ("cubic", [], [(9.0, 4)])
    server = json.loads(
        document(f'"sum": {total(0, 16e3, sender=True, retransmits=3)}', role="accepted_connection")
    )
    both = document(f'"sum": {total(0, 8e3, sender=False)}', end=end, server_output_json=server)
    log = read(written(tmp_path, "s.json", both))
    assert log.transfers["down"].intervals == [(2.0, 3)]
    assert log.rates["down"][1] == [8e3], "the receiver's rate"


def test_streams_of_events_and_several_documents_are_read(tmp_path: Path) -> None:
    one, two = (f'"sum": {total(at, 7e6, sender=True)}' for at in (0, 1))
    start = json.loads(document())["start"]
    events = [
        json.dumps({"event": "start", "data": {**start, "cookie": "a"}}),
        f'{{"event": "interval", "data": {{{one}}}}}',
        f'{{"event": "interval", "data": {{{two}}}}}',
    ]
    stream = "\n".join(events) + "\n"
    whole = ([1_700_000_000, 1_700_000_001], [7e6, 7e6])
    found = read(written(tmp_path, "e.json", stream))
    assert (found.rates, found.notes) == ({"up": whole}, [])
    ended = (
        stream
        + '{"event": "error", "data": "interrupt - the client has terminated"}\n{"event": "end", "data": {}}\n'
    )
    found = read(written(tmp_path, "i.json", ended))
    assert found.rates == {"up": whole}
    assert found.notes == [
        'iperf3 ended early ("interrupt - the client has terminated"): only the intervals before are used'
    ]
    found = read(written(tmp_path, "c.json", stream + events[2][:40]))
    assert (found.rates, found.notes) == (
        {"up": whole},
        ["line 4 is truncated: only the data before it is used"],
    )
    again = json.loads(document(one, two))  # --json-stream-full-output: the events once more, as a document
    again["start"]["cookie"] = "a"
    assert read(written(tmp_path, "f.json", stream + json.dumps(again))).rates == {"up": whole}
    several = document(one) + document(one, begin=1_700_000_090)
    found = read(written(tmp_path, "d.json", several))
    assert found.rates == {"up": ([1_700_000_000, 1_700_000_090], [7e6, 7e6])}


def test_an_interrupted_test_keeps_its_intervals_and_a_remainder_is_left_out(tmp_path: Path) -> None:
    parts = [f'"sum": {total(0, 7e6, sender=True)}', f'"sum": {total(1, 9e9, sender=True, length=0.001)}']
    error = "interrupt - the client has terminated"
    found = read(written(tmp_path, "i.json", document(*parts, error=error)))
    assert found.rates == {"up": ([1_700_000_000], [7e6])}
    assert error in found.notes[0]


def test_opportunities_and_delays_without_columns(tmp_path: Path) -> None:
    found = read(written(tmp_path, "m.txt", "".join(f"{at}\n" for at in range(0, 2001, 2))))
    assert found.kind == "mahimahi"
    assert found.rates[None] == ([0.0, 0.5, 1.0, 1.5], [6e6] * 4), "500 packets of 1500 B in a second"
    found = read(written(tmp_path, "d.txt", "12\n9.5\n" * 50))
    assert (found.kind, found.one_way, found.at_s[2], found.delay_ms[:2]) == (
        "leoreplayer",
        True,
        0.02,
        [12, 9.5],
    )


@pytest.mark.parametrize(
    ("text", "at_s", "delay_ms"),
    [
        ("timestamp,rtt\n1705744800.5,91.8\n1705744800.6,-1\n", [1705744800.5, 1705744800.6], [91.8, None]),
        ("1705744800.5,91.8\n1705744800.6,\n", [1705744800.5, 1705744800.6], [91.8, None]),
        ("timestamp,relative,rtt\n1,0,5\n2,1,6\n", [1, 2], [5, 6]),
        ("time_ms,rtt_us\n1000,5000\n", [1], [5]),
        (
            "timestamp,rtt,uplink,downlink\n1705744800616897349,0,0,-1\n1705744800626565141,120.1,72.4,47.7\n",
            [1705744800.616897, 1705744800.626565],
            [None, 120.1],
        ),
    ],
)
def test_csv_of_round_trips_as_lens_has_it(
    tmp_path: Path, text: str, at_s: list[float], delay_ms: list[float | None]
) -> None:
    found = read(written(tmp_path, "c.csv", text))
    assert found.at_s == pytest.approx(at_s, rel=1e-13)
    assert found.delay_ms == delay_ms


def test_csv_of_rates_and_of_one_way_delays(tmp_path: Path) -> None:
    found = read(written(tmp_path, "c.csv", "time_s,rate_Mbit_s\n0,5\n1,6\n"))
    assert found.rates == {None: ([0, 1], [5e6, 6e6])}
    assert read(written(tmp_path, "d.csv", "time_s,delay_s\n0,0.005\n")).one_way


GOOD = "[1700000000.04] 64 bytes from 1.1.1.1: icmp_seq=1 ttl=57 time=40.0 ms\n"
BAD: dict[str, tuple[str, str]] = {
    "empty": ("", "bad: it is empty"),
    "words": ("hello\nworld\n", 'bad: line 1: found "hello", expected a log of a known kind: ping, iperf3, mahimahi'),
    "no stamp": ("PING\n" + GOOD[16:], "bad: line 2: a reply without a timestamp; use ping -D"),
    "no time": (GOOD + GOOD.replace("time=40.0", "time=x"), 'bad: line 2: found "[1700000000.04]'),
    "cut": (GOOD + GOOD[:50], r"bad: line 2: found "),
    "no answer": ("PING 1.1.1.1 (1.1.1.1) 56(84) bytes of data.\n", "bad: no replies to pings"),
    "clock": (GOOD + GOOD.replace("17000", "16000").replace("seq=1", "seq=2"), "bad: line 2: time goes backwards"),
    "two pings": (
        GOOD.replace("seq=1 ", "seq=9 ") + GOOD.replace("17000", "17001"),
        "bad: line 2: icmp_seq=1 restarts, expected one ping in a log",
    ),
    "no JSON": ('{\n "start": 1,\n}', "bad: line 3: not JSON: "),
    "not iperf3": ('{"a": 1}', "bad: expected iperf3's JSON with start, test_start and intervals; 'start' is missing"),
    "iperf3 failed": ('{"error": "unable to connect"}', "bad: iperf3 error: unable to connect"),
    "iperf3 empty": (iperf3(intervals=[]), "bad: iperf3 measured no interval"),
    "iperf3 odd": (iperf3(intervals=[3]), "bad: expected iperf3's JSON with start, test_start and intervals; found"),
    "iperf3 text": (document() + "iperf3: interrupt\n", 'bad: line 2: not JSON: Expecting value, found "iperf3: interrupt"'),
    "iperf3 nan": (
        document(f'"sum": {total(0, 1, sender=True)}').replace(": 1,", ": nan,"),
        'bad: line 1: not JSON: Expecting value, found "nan, ',
    ),
    "iperf3 NaN": (
        document(f'"sum": {total(0, 1, sender=True, bits_per_second=math.nan)}'),
        "bad: interval 1: found bits_per_second = NaN, expected a number from 0 on",
    ),
    "iperf3 omit": (iperf3().replace('"omit": 1', '"omit": "1"'), 'bad: found omit = "1", expected a number from 0 on'),
    "iperf3 null": (
        document(f'"sum": {total(0, 1, sender=True, bits_per_second=None)}'),
        "bad: interval 1: found bits_per_second = null, expected a number from 0 on",
    ),
    "iperf3 huge": ('{"start": ' + "9" * 5000 + "}", "bad: not iperf3 JSON: Exceeds the limit"),
    "iperf3 back": (
        document(f'"sum": {total(9, 1e6, sender=True)}') + document(f'"sum": {total(0, 1e6, sender=True)}'),
        "bad: the rate up: time goes backwards, expected one test after the other",
    ),
    "opportunity": ("1\n2\n3.5\n", 'bad: line 3: found "3.5", expected an instant in whole milliseconds'),
    "back": ("".join(f"{n}\n" for n in range(300)) + "7\n", "bad: line 301: time goes backwards: 7 after 299"),
    "moment": ("1\n2\n3\n", "bad: it lasts 2 ms, expected several intervals"),
    "delay": ("12\n9\n" * 50 + "-1\n", 'bad: line 101: found "-1", expected a delay in ms'),
    "columns": ("when,rtt\n1,2\n", 'bad: line 1: found columns "when, rtt", expected one of time_s'),
    "no points": ("timestamp,rtt\n", "bad: line 1: no data rows below the column names"),
    "number": ("timestamp,rtt\n1,2\n2,x\n", 'bad: line 3: found "x", expected a number'),
    "infinite": ("timestamp,rtt\n1,inf\n", 'bad: line 2: found "inf", expected a number'),
    "fields": ("timestamp,rtt\n1,2\n2\n", "bad: line 3: found 1 fields, expected 2"),
    "csv back": ("timestamp,rtt\n2,2\n1,2\n", "bad: line 3: time goes backwards"),
    "short": ("timestamp,rtt\n" + "".join(f"{n},40\n" for n in range(60)), "bad: it has 59 s, expected at least 75 s: 5 intervals"),
    "sparse": ("timestamp,rtt\n" + "".join(f"{3 * n},40\n" for n in range(60)), "bad: it has 5.1 points in 15 s"),
    "lost": ("timestamp,rtt\n1,-1\n2,-1\n", "bad: every packet is lost, expected delays"),
    "eons": ("timestamp,rtt\n1,5\n1700000000,5\n", "bad: it has 19676 days, expected at most 30"),
    "holes": (
        "timestamp,rtt\n" + "".join(f"{0.01 * n},5\n" for n in range(99)) + "9000,5\n",
        "bad: its 100 points leave out most of its 9000 s",
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", BAD)
def test_a_bad_log_is_one_message_with_its_line(tmp_path: Path, case: str) -> None:
    text, message = BAD[case]
    written(tmp_path, "bad", text)
    done = bentpipe(tmp_path, "fit", "bad")
    assert done.returncode == 2, done.stdout
    assert done.stderr.startswith(f"error: {message}"), done.stderr
    assert done.stderr.count("\n") == 1
    assert not (tmp_path / "out").exists()


def test_a_log_that_is_not_there_or_not_text_is_refused(tmp_path: Path) -> None:
    (tmp_path / "raw").write_bytes(b"1,2\n\xff\xfe\n")
    (tmp_path / "cut.gz").write_bytes(gzip.compress(PING.encode())[:-9])
    (tmp_path / "list").write_text("[]")
    for name, message in (
        ("none", "none: No such file"),
        ("raw", "raw: line 2: it is not text in UTF-8"),
        ("cut.gz", "cut.gz: "),
        ("ping=raw", "raw: line 2"),
        (
            "pingg=raw",
            'pingg=raw: no kind "pingg", expected one of: ping, iperf3, mahimahi, leoreplayer, csv; did you',
        ),
        ("iperf3=list", "list: expected iperf3's JSON with start, test_start and intervals; found no table"),
    ):
        done = bentpipe(tmp_path, "fit", name)
        assert (done.returncode, done.stderr.count("\n")) == (2, 1)
        assert done.stderr.startswith(f"error: {message}"), done.stderr
