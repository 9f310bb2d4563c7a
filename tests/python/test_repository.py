"""Statements of the repository are true: versions, links, documented keys and options."""

import ast
import json
import re
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
DOCUMENTS = sorted(
    [*ROOT.glob("*.md")]
    + [
        one
        for part in ("docs", "studies", "crates", "examples", "changelog.d")
        for one in ROOT.glob(f"{part}/**/*.md")
    ]
)


def anchors(text: str) -> set[str]:
    """The anchors of a document's headings, as the forges make them."""
    headings = re.findall(r"^#+ (.+)$", text, re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: str(path.relative_to(ROOT)))
def test_links_lead_somewhere(document: Path) -> None:
    text = document.read_text()
    for target in re.findall(r"\]\(([^)\s]+)\)", text):
        if "://" in target:
            continue
        name, _, anchor = target.partition("#")
        place = document.parent / name if name else document
        assert place.exists(), f"{document.name}: {target}"
        if anchor:
            assert anchor in anchors(place.read_text()), f"{document.name}: {target}"


def test_every_decision_is_listed() -> None:
    folder = ROOT / "docs/decisions"
    listed = re.findall(r"\]\((\d{4}-[\w-]+\.md)\)", (folder / "README.md").read_text())
    assert listed == sorted(path.name for path in folder.glob("[0-9]*.md"))


def test_one_folder_names_the_quic_stack() -> None:
    """For the driver is of any stack (docs/decisions/0082)."""
    folder = "crates/transport/src/quic/quinn/"
    files = [path for path in ROOT.glob("crates/**/*.rs") if re.search(r"quinn[-_]proto", path.read_text())]
    assert {str(path.relative_to(ROOT)).startswith(folder) for path in files} == {True}, files


ROOMS = sorted((ROOT / "python/bentpipe").glob("*/**/__init__.py"))


@pytest.mark.parametrize("room", ROOMS, ids=lambda path: path.parent.name)
def test_a_package_names_its_modules(room: Path) -> None:
    """In its docstring, for who comes in; or it imports them, some by a name that is ``module:...``. A study's own folder is read from its beginning."""
    if room.parents[1].name == "studies":
        return
    tree = ast.parse(room.read_text())
    message = ast.get_docstring(tree) or ""
    imported = {
        name for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)
        for name in ((node.module or "").rpartition(".")[2], *(one.name for one in node.names))
    }  # fmt: skip
    texts = [
        node.value
        for node in ast.walk(tree)
        if isinstance(node, ast.Constant) and isinstance(node.value, str)
    ]
    imported |= {module for module, colon, _ in (text.partition(":") for text in texts) if colon}
    modules = {file.stem for file in room.parent.glob("*.py")} - {"__init__", "__main__"}
    modules |= {inner.parent.name for inner in room.parent.glob("*/__init__.py")}
    assert {name for name in modules - imported if f"``{name}``" not in message} == set()


def test_versions_agree() -> None:
    version = tomllib.loads((ROOT / "Cargo.toml").read_text())["workspace"]["package"]["version"]
    assert re.search(r"^version: (.+)$", (ROOT / "CITATION.cff").read_text(), re.MULTILINE)[1] == version
    assert re.search(r"^## (\d\S*)", (ROOT / "CHANGELOG.md").read_text(), re.MULTILINE)[1] == version


def test_requirements_follow_from_the_project() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    lines = [*project["dependencies"], *project["optional-dependencies"]["ods"]]
    declared = {re.match(r"[\w-]+", line)[0] for line in lines}
    named = set(re.findall(r"^[\w-]+", (ROOT / "requirements/run.in").read_text(), re.MULTILINE))
    assert named == declared


@pytest.mark.parametrize("name", ["run", "dev", "wheel", "docs"])
def test_requirements_are_pinned_with_hashes_and_name_no_index(name: str) -> None:
    text = (ROOT / f"requirements/{name}.txt").read_text()
    assert "://" not in text
    for block in re.split(r"\n(?=\S)", text.strip()):
        assert re.match(r"[\w.-]+==\S+", block), block
        assert "--hash=sha256:" in block, block


def test_run_and_dev_pin_the_same() -> None:
    pins = {
        name: re.findall(
            r"^[\w.-]+==.+(?= \\$)", (ROOT / f"requirements/{name}.txt").read_text(), re.MULTILINE
        )
        for name in ("run", "dev")
    }
    assert set(pins["run"]) <= set(pins["dev"])
    assert len(pins["run"]) > 10


def test_the_manual_has_every_controller() -> None:
    engine = pytest.importorskip("bentpipe._engine")
    text = (ROOT / "docs/reference/controllers.md").read_text()
    headings = set(re.findall(r"^## (.+?)\n", text, re.MULTILINE))
    for entry in json.loads(engine.descriptors())["controllers"]:
        assert ", or ".join([entry["scenario_name"], *entry["aliases"]]) in headings


def test_the_manual_has_the_kernels_twins_and_who_draws() -> None:
    engine = pytest.importorskip("bentpipe._engine")
    text = (ROOT / "docs/reference/controllers.md").read_text()
    part = text.split("## Kernel controllers and random numbers\n")[1].split("\n#")[0]
    rows = re.findall(r"^\| `(\w+)`.*? \| `(\w+)`.*? \| (.+) \|$", part, re.MULTILINE)
    entries = json.loads(engine.descriptors())["controllers"]
    twins = {entry["scenario_name"]: entry["kernel"] for entry in entries if entry["kernel"]}
    assert {ours: theirs for ours, theirs, _ in rows} == {ours: twin["name"] for ours, twin in twins.items()}
    for ours, _, options in rows:
        named = {key: value for key, value in twins[ours]["options"].items() if value is not None}
        assert set(options.split(", ")) == {f"`{key} = {json.dumps(value)}`" for key, value in named.items()}
    drawing = [f"`{entry['scenario_name']}`" for entry in entries if entry["draws"]]
    assert f"{' and '.join(drawing)} draw random numbers" in part


def test_the_manual_has_every_key_of_a_scenario() -> None:
    scenario = pytest.importorskip("bentpipe.scenario.model")
    text = "".join(page.read_text() for page in (ROOT / "docs/reference").glob("*.md"))
    words = set(re.findall(r"[A-Za-z_]+", text))
    schema = scenario.Scenario.model_json_schema()
    for table in [schema, *schema["$defs"].values()]:
        missing = set(table.get("properties", {})) - words - {"constant", "probability", "fixed"}
        assert not missing, f"{table.get('title')}: {missing}"


def test_the_manual_has_every_option_of_a_command_that_has_a_page() -> None:
    """The page links the explanation of the options of figures."""
    from typer.main import get_command

    from bentpipe.cli import app

    lacking = {}
    for name, command in get_command(app).commands.items():  # type: ignore[attr-defined]
        page = ROOT / f"docs/how-to/{name}.md"
        if page.exists():
            text = page.read_text()
            words = {word for one in command.params for word in one.opts if word.startswith("--")}
            lacking[name] = sorted(word for word in words - {"--help"} if word not in text)
    assert len(lacking) >= 8
    assert {name: words for name, words in lacking.items() if words} == {}


def test_the_manual_has_every_figure() -> None:
    from bentpipe.figures.registry import FIGURES

    text = (ROOT / "docs/reference/figures.md").read_text()
    rows = re.findall(r"^\| [^|]+ \| ((?:`[\w-]+`(?:, )?)+) \|", text, re.MULTILINE)
    keys = {key for row in rows for key in re.findall(r"`([\w-]+)`", row)}
    assert set(FIGURES) <= keys, set(FIGURES) - keys
