"""Tables in a terminal: blocks of columns that fit, each with the columns that identify a row."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from bentpipe.cli.console import _blocks

NAMES = st.lists(st.text("abcdefg", min_size=1, max_size=12), min_size=1, max_size=12, unique=True)


@given(NAMES, st.integers(0, 3), st.integers(20, 120))
def test_blocks_hold_every_column_once_and_fit(names: list[str], keys: int, width: int) -> None:
    keys = min(keys, len(names) - 1)
    names = [*names[:keys], "seeds", *names[keys:]] if keys else names
    cells = {name: ["1", "22"] for name in names}
    numeric = set() if keys else set(names[1:])
    blocks = _blocks({name: name for name in names}, cells, numeric, width)
    if len(blocks) == 1:
        assert blocks == [names]
        return
    leading = keys + 1 if keys else 1
    assert [name for block in blocks for name in block[leading:]] == names[leading:]
    for block in blocks:
        assert block[:leading] == names[:leading]
        # a block is wider than the terminal only if one column beside the keys already is
        assert sum(max(len(name), 2) + 1 for name in block) - 1 <= width or len(block) == leading + 1


def test_without_terminal_a_table_is_one_block() -> None:
    names = {name: name for name in ("controller", "seeds", "goodput")}
    assert _blocks(names, {name: ["x" * 30] for name in names}, set(), None) == [list(names)]
    assert _blocks(names, {name: ["x" * 30] for name in names}, set(), 92) == [list(names)]
