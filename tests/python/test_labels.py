"""Names of tied axes are their author's: none is taken for a column of ours."""

from __future__ import annotations

import ast
import functools
import json
import re
from pathlib import Path
from types import ModuleType

import pytest

import bentpipe
import synthetic_pages
from bentpipe.engine_validation.compare import compare_engines as both_clocks
from bentpipe.engine_validation.compare import format_rows
from bentpipe.engine_validation.figures import figures as agreement_figures
from bentpipe.figures.sweep_dimensions import dimensions
from bentpipe.metrics import compute as stats
from bentpipe.metrics.store_comparison import compare_stores as compare
from bentpipe.metrics.summary_table import page_rows, summary_rows
from bentpipe.plan.document import load_scenario
from bentpipe.plan.plan import build_plan
from bentpipe.plan.spec.result_columns import COLUMNS
from bentpipe.report import browse_summary, notebook, store_page
from bentpipe.report.export import export
from bentpipe.report.ods import sheets
from bentpipe.scenario.errors import ScenarioError
from bentpipe.scenario.sweep_columns import column_name, sweep_key
from bentpipe.store.reader import Store, open_store
from nightly import keep
from store_edit import change_plan, sign

ROOT = Path(bentpipe.__file__).parent
ROOMS = ("engine_validation", "figures", "metrics", "plan", "report", "store")
"""Commands that read a store."""

BROKE = ("arm", "load", "http", "jain", "n", "mean", "row", "column", "series", "metric", "flow", "x")
HEADINGS = (
    "Jain",
    "controller",
    "goodput Mbit/s",
    "PLT median s",
    "TTR s",
    "negotiated protocol",
    "filename",
)


@functools.cache
def words() -> list[str]:
    """Every text in the sources of who reads stores that could be a column's name, those that broke something first."""
    found = dict.fromkeys((*BROKE, *HEADINGS))
    for file in sorted(file for room in ROOMS for file in (ROOT / room).rglob("*.py")):
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            text = node.value if isinstance(node, ast.Constant) else getattr(node, "arg", None)
            if isinstance(text, str) and re.fullmatch(r"[A-Za-z_][\w ]{0,30}", text):
                found[text] = None
    return [name for name in found if name not in ("run", "seed")]  # these two no plan ever let pass


def label(store: Path, names: list[str]) -> Path:
    """Gives every cell of a store tied axes of these names, all with the same labels."""
    plan = json.loads((store / "plan.json").read_text())
    cells: list[str] = []
    for run in plan["runs"]:
        text = json.dumps(run["cell"])
        cells += [] if text in cells else [text]
        run["cell"] = {name: f"cell {cells.index(text)}" for name in names} | run["cell"]
    change_plan(store, runs=plan["runs"])
    return store


@pytest.fixture(scope="module")
def made(synthetic: ModuleType, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    base = tmp_path_factory.mktemp("labels")
    rivals = [
        (
            {"flow.b.congestion": other},
            seed,
            [synthetic.Flow("a"), synthetic.Flow("b", other)],
            {"duration_s": 8.0},
        )
        for other in ("bbr", "cubic")
        for seed in (1, 2)
    ]
    found = {
        "rivals": synthetic.write_store(base / "rivals", rivals),
        "sizes": synthetic.sizes_store(base / "sizes"),
        "pages": synthetic_pages.page_store(base / "pages", synthetic, seeds=2),
    }
    spec_json = build_plan(load_scenario(tied("arm")), "test").runs[0].spec_json()
    for folder in base.glob("*/runs/*"):
        (folder / "spec.json").write_text(spec_json)
        sign(folder / "spec.json")
    return found


@pytest.fixture
def stores(made: dict[str, Path]):  # noqa: ANN201
    """The stores, whose plans are as before after the test."""
    plans = {place: (place / "plan.json").read_text() for place in made.values()}
    yield made
    for place, text in plans.items():
        (place / "plan.json").write_text(text)


def everything(place: Path, out: Path) -> None:
    """All that reads a store."""
    page_rows(place)
    assert store_page.write_report(place, out / "report.html").stat().st_size
    assert "<table>" in notebook.html(place)
    compare(place, place)
    both = both_clocks(place, place)
    assert format_rows(both.rows)
    agreement_figures(both)
    assert sheets(open_store(place))
    if open_store(place).rows("pages").height:
        assert browse_summary.rows(place)


@pytest.mark.parametrize("kind", keep(["rivals"], ["rivals", "sizes", "pages"]))
def test_labels_of_any_name_are_read(stores: dict[str, Path], tmp_path: Path, kind: str) -> None:
    names = words()
    assert len(names) > 1000
    place = stores[kind]
    dotted = {key.rsplit(".")[-1] for key in Store(place).keys}  # named with more words if a label is equal
    before = [summary_rows(place)[1], summary_rows(place, numbers=True)[1]]
    label(place, names)
    everything(place, tmp_path)
    after = [summary_rows(place)[1], summary_rows(place, numbers=True)[1]]
    for old, new in zip(before, after, strict=True):
        ours = [key for key in old[0] if key not in dotted]
        assert ours
        assert [{key: row[key] for key in ours} for row in new] == [
            {key: row[key] for key in ours} for row in old
        ]
        assert all(len(row) == len(old[0]) + len(names) for row in new)


@pytest.mark.parametrize("name", keep(BROKE[:2], BROKE))
def test_a_label_of_a_name_that_broke_is_a_dimension(
    stores: dict[str, Path], tmp_path: Path, name: str
) -> None:
    place = label(stores["pages"], [name])
    assert summary_rows(place)[1]
    page_rows(place)
    store = open_store(place)
    assert dimensions(store.index, store.columns)[0].key == column_name(name)
    assert Store(place).flow_summary.height
    assert export(Store(place), "csv", tmp_path / "csv")


@pytest.mark.nightly
@pytest.mark.parametrize("name", BROKE[::4])
def test_a_report_names_its_label(stores: dict[str, Path], tmp_path: Path, name: str) -> None:
    place = label(stores["pages"], [name])
    text = store_page.write_report(place, tmp_path / "report.html").read_text(encoding="utf-8")
    assert f"Swept: {name} cell 0, cell 1" in text.replace("\u00a0", " ")


def test_no_column_of_ours_has_a_dot(stores: dict[str, Path]) -> None:
    store = open_store(stores["rivals"])
    metrics = stats.run_metrics(store)
    ours = [*(name for table in COLUMNS.values() for name in table), *metrics.columns]
    ours += [*stats.link_metrics(store).columns, *stats.aggregate_seeds(metrics, store.columns).columns]
    assert [name for name in ours if "." in name and name not in store.columns] == []
    assert column_name("arm") == "sweep.arm"
    assert column_name("flow.a.congestion") == "flow.a.congestion"
    assert all(sweep_key(column_name(key)) == key for key in ("arm", "flow.a.congestion", "duration"))


def tied(name: str) -> dict[str, object]:
    flow = {"name": "a", "congestion": "cubic"}
    path = {"segment": [{"name": "s", "delay": "10 ms", "both": {"rate": "1 Mbit/s"}}]}
    axis = [{"label": "one", "duration": "1 s"}, {"label": "two", "duration": "2 s"}]
    return {"duration": "1 s", "path": path, "flow": [flow], "sweep": {name: axis}}


@pytest.mark.parametrize("name", ["arm", "jain", "n", "mean", "row", "series", "metric", "x y", "é", "Arm"])
def test_a_tied_axis_may_have_the_name_of_what_is_computed(name: str) -> None:
    assert len(build_plan(load_scenario(tied(name)), "test").runs) == 2


@pytest.mark.parametrize(
    "name", ["http", "HTTP", "load", "protocol", "host", "run", "seed", "queued_s", "time_s"]
)
def test_a_tied_axis_may_not_have_the_name_of_a_column(name: str) -> None:
    message = rf'sweep\.{name}: the tied axis cannot have the name "{name}": .* a column with it'
    with pytest.raises(ScenarioError, match=message):
        build_plan(load_scenario(tied(name)), "test")


@pytest.mark.parametrize("name", ["", "a\nb"])
def test_a_tied_axis_has_a_name_that_can_be_seen(name: str) -> None:
    with pytest.raises(ScenarioError, match="found an invisible name"):
        build_plan(load_scenario(tied(name)), "test")


def test_a_sweep_is_not_swept() -> None:
    data = {**tied("a"), "sweep": {"sweep.arm": ["a", "b"]}}
    with pytest.raises(ScenarioError, match=r"sweep\.sweep\.arm: a sweep cannot be swept"):
        build_plan(load_scenario(data), "test")


def test_names_that_differ_in_case_have_columns_of_their_own_in_sql(stores: dict[str, Path]) -> None:
    place = label(stores["sizes"], ["arm", "Arm", "filename", "t", "runs"])
    asked = "SELECT arm, arm_2, filename, t, runs FROM flow_summary"
    assert set(Store(place).connect().execute(asked).fetchall()) == {(f"cell {n}",) * 5 for n in (0, 1)}
