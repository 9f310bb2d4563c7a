"""Spreadsheets: re-read with odfpy, filled templates, and LibreOffice where there is one."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import zipfile
from typing import TYPE_CHECKING, Any

import pytest
from odf.opendocument import OpenDocumentSpreadsheet, load
from odf.table import Table, TableCell, TableRow
from odf.text import P

from bentpipe.report.ods import Tables, column_name, write_ods
from bentpipe.report.ods_template import TemplateError
from bentpipe.store.codec import TABLES
from bentpipe.store.reader import open_store

if TYPE_CHECKING:
    from pathlib import Path
    from types import ModuleType


def grid(path: Path, sheet: str) -> list[list[str]]:
    """Text of a sheet's cells."""
    tables = {t.getAttribute("name"): t for t in load(str(path)).spreadsheet.getElementsByType(Table)}
    return [
        [str(cell) for cell in row.getElementsByType(TableCell)]
        for row in tables[sheet].getElementsByType(TableRow)
    ]


def template(path: Path, sheets: dict[str, list[list[str]]]) -> Path:
    document: Any = OpenDocumentSpreadsheet()
    for name, rows in sheets.items():
        table = Table(name=name)
        for cells in rows:
            row = TableRow()
            for text in cells:
                cell = TableCell(valuetype="string") if text[:1] != "=" else TableCell(formula=f"of:{text}")
                cell.addElement(P(text=text))
                row.addElement(cell)
            table.addElement(row)
        document.spreadsheet.addElement(table)
    document.save(str(path))
    return path


@pytest.fixture
def store(synthetic: ModuleType, tmp_path: Path) -> Path:
    path: Path = synthetic.pair_store(tmp_path / "store", [(5.0, 4.0), (5.2, 3.9)])
    return path


def test_sheets_and_charts(store: Path, tmp_path: Path) -> None:
    out = write_ods(store, tmp_path / "out.ods")
    goodput = grid(out, "goodput")
    assert goodput[0] == ["time_s", "first (hybla)", "second (newreno)"]
    assert len(goodput) == 31
    assert float(goodput[5][1]) == pytest.approx(5.0, rel=1e-3)
    assert grid(out, "metrics")[0][:3] == ["run", "seed", "flow"]
    with zipfile.ZipFile(out) as parts:
        charts = [
            name for name in parts.namelist() if name.startswith("Object") and name.endswith("content.xml")
        ]
        assert len(charts) == 3
        assert "'goodput'.$B$2:'goodput'.$B$31" in "".join(parts.read(name).decode() for name in charts)


def test_columns_are_as_wide_as_what_they_hold(store: Path, tmp_path: Path) -> None:
    with zipfile.ZipFile(write_ods(store, tmp_path / "out.ods")) as parts:
        content = parts.read("content.xml").decode()
    widths = {float(text) for text in re.findall(r'column-width="([\d.]+)cm"', content)}
    assert len(widths) > 3
    assert 1 <= min(widths) < max(widths) <= 8.2


def test_a_template_is_filled_and_the_rest_stays(store: Path, tmp_path: Path) -> None:
    mine = template(
        tmp_path / "mine.ods",
        {
            "notes": [["keep me", "=SUM([goodput.B2:.B100])"]],
            "goodput": [["time_s", "remark", "second (newreno)"], ["old", "old", "old"]],
            "cwnd": [],
        },
    )
    out = write_ods(store, tmp_path / "filled.ods", mine)
    assert grid(out, "notes") == grid(mine, "notes")
    goodput = grid(out, "goodput")
    assert goodput[0] == ["time_s", "remark", "second (newreno)"]
    assert (len(goodput), goodput[1][1]) == (31, "")
    assert float(goodput[3][2]) == pytest.approx(4.0, rel=1e-3)
    assert grid(out, "cwnd")[0] == ["time_s", "first (hybla)", "second (newreno)"]
    with zipfile.ZipFile(out) as parts:
        content = parts.read("content.xml").decode()
    assert "of:=SUM([goodput.B2:.B100])" in content
    assert 'xmlns:of="' in content


def test_raw_tables_by_run(store: Path, tmp_path: Path) -> None:
    run = next((store / "runs").iterdir()).name
    mine = template(
        tmp_path / "mine.ods", {f"{run}.links": [["time_s", "queued_packets"]], "flow_summary": []}
    )
    out = write_ods(store, tmp_path / "filled.ods", mine)
    assert len(grid(out, f"{run}.links")) == 1 + 2 * 301
    assert len(grid(out, "flow_summary")) == 1 + 2 * 2 * 2


def test_every_table_of_a_store_may_be_a_sheet(store: Path) -> None:
    assert set(TABLES) < set(Tables(open_store(store)).names())
    for name in TABLES:
        assert Tables(open_store(store)).get(name) is not None, name


def test_a_template_without_a_known_sheet_is_refused(store: Path, tmp_path: Path) -> None:
    mine = template(tmp_path / "mine.ods", {"Sheet1": [["a"]]})
    with pytest.raises(TemplateError, match="expected one of: metrics, cells, cwnd"):
        write_ods(store, tmp_path / "filled.ods", mine)
    (tmp_path / "text.ods").write_text("no")
    with pytest.raises(TemplateError, match="cannot be read"):
        write_ods(store, tmp_path / "filled.ods", tmp_path / "text.ods")


@pytest.mark.parametrize(("index", "name"), [(0, "A"), (25, "Z"), (26, "AA"), (701, "ZZ"), (702, "AAA")])
def test_column_names(index: int, name: str) -> None:
    assert column_name(index) == name


@pytest.mark.live
def test_libreoffice_opens_it_and_keeps_charts_of_a_template(store: Path, tmp_path: Path) -> None:
    """LibreOffice reads our file, writes it again as its own, and what it wrote serves as a template."""
    office = shutil.which("soffice")
    if office is None:
        pytest.skip("no LibreOffice on this machine")

    def convert(path: Path, kind: str, to: Path) -> Path:
        command = [office, f"-env:UserInstallation={(tmp_path / 'profile').as_uri()}", "--headless", "--convert-to",
                   kind, "--outdir", str(to), str(path)]  # fmt: skip
        subprocess.run(command, check=True, capture_output=True, timeout=180)
        return to / f"{path.stem}.{kind}"

    ours = write_ods(store, tmp_path / "ours.ods")
    theirs = convert(ours, "ods", tmp_path / "theirs")
    filled = write_ods(store, tmp_path / "filled.ods", theirs)
    again = convert(filled, "ods", tmp_path / "again")
    for path in (theirs, filled, again):
        with zipfile.ZipFile(path) as parts:
            charts = [n for n in parts.namelist() if n.startswith("Object ") and n.endswith("/content.xml")]
            texts = [parts.read(name).decode() for name in charts]
        assert len(charts) == 3
        assert all(text.count("<chart:series ") == 2 for text in texts)
    assert len(grid(again, "goodput")) >= 31


def test_without_odfpy_its_extra_is_named(
    store: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "odf.opendocument", None)
    with pytest.raises(ImportError, match=r"pip install 'bentpipe\[ods\]'"):
        write_ods(store, tmp_path / "store.ods")
    assert not (tmp_path / "store.ods").exists()
