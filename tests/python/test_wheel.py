"""A wheel of what is built here, installed where there is no toolchain and none of the checkout, does what bentpipe does."""

from __future__ import annotations

import ast
import hashlib
import json
import os
import re
import subprocess
import sys
import sysconfig
import zipfile
from base64 import urlsafe_b64encode
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.metadata import packages_distributions
from pathlib import Path

import pytest

import realtime
from script_loader import load_script
from test_dask import Cluster

ROOT = Path(__file__).resolve().parents[2]

# The installed package must not open a file of the checkout, except libraries in its .venv.
WATCH = f"""
import sys

def watch(event, arguments):
    if event in ("open", "os.listdir", "os.scandir") and arguments and isinstance(arguments[0], (str, bytes)):
        path = os.path.abspath(os.fsdecode(arguments[0]))
        if path.startswith({str(ROOT)!r} + "/") and not path.startswith({str(ROOT / ".venv")!r}):
            os.write(2, f"opened {{path}}\\n".encode())
            os._exit(70)

import os
sys.addaudithook(watch)
"""


@dataclass(frozen=True)
class Installed:
    """A virtual environment with the wheel, and a folder elsewhere."""

    python: Path
    folder: Path

    @property
    def environment(self) -> dict[str, str]:
        """Without cargo, without anything of bentpipe's."""
        names = ("HOME", "LANG", "TMPDIR", "XDG_CACHE_HOME")
        saved = {name: os.environ[name] for name in names if name in os.environ}
        return saved | {"PATH": f"{self.python.parent}:/usr/bin:/bin"}

    def run(self, *words: str) -> str:
        """Return the output of ``bentpipe WORDS`` there."""
        return self.process([str(self.python.with_name("bentpipe")), *words])

    def process(self, words: Sequence[str]) -> str:
        done = subprocess.run(
            words, cwd=self.folder, env=self.environment, capture_output=True, text=True, timeout=120
        )
        assert done.returncode == 0, done.stderr
        return done.stdout


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    realtime.need("cargo")
    pytest.importorskip("bentpipe._engine")
    folder = tmp_path_factory.mktemp("dist")
    code = "import sys; from pathlib import Path; import backend; print(backend.assemble_wheel(*map(Path, sys.argv[1:])))"
    done = subprocess.run(
        [sys.executable, "-c", code, folder, ROOT / "python/bentpipe/_engine.abi3.so", realtime.program()],
        env=os.environ | {"PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}", "PYTHONPATH": str(ROOT / "scripts")},
        capture_output=True, text=True, timeout=120, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return folder / done.stdout.split()[-1]


@pytest.fixture(scope="module")
def installed(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Installed:
    place = tmp_path_factory.mktemp("installed")
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", place / "venv"], check=True)
    python, folder = place / "venv/bin/python", place / "elsewhere"
    pip = [sys.executable, "-m", "pip", "--python", python, "install", "--quiet", "--no-compile"]
    subprocess.run([*pip, "--no-deps", "--no-index", wheel], check=True)
    [site] = (place / "venv/lib").glob("python3*/site-packages")
    # The libraries are those of the tests; a path file of theirs, such as the one that names the checkout, is not read.
    (site / "libraries.pth").write_text(sysconfig.get_path("purelib") + "\n")
    (site / "sitecustomize.py").write_text(WATCH)
    folder.mkdir()
    return Installed(python, folder)


def test_it_holds_what_git_has_and_says_so(wheel: Path) -> None:
    assert load_script("wheel").missing_files(wheel) == set()
    with zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()
        [record] = (name for name in names if name.endswith(".dist-info/RECORD"))
        rows = dict(line.split(",")[:2] for line in archive.read(record).decode().splitlines())
        assert sorted(rows) == sorted(set(names)) == sorted(names)
        for name in set(names) - {record}:
            digest = urlsafe_b64encode(hashlib.sha256(archive.read(name)).digest()).decode().rstrip("=")
            assert rows[name] == f"sha256={digest}", name
        metadata = archive.read(record.replace("RECORD", "METADATA")).decode()
    assert not [name for name in names if "__pycache__" in name]
    assert all(f"Provides-Extra: {extra}" in metadata for extra in ("ods", "dask", "notebook"))
    assert "Requires-Dist: odfpy>=1.4.1 ; extra == 'ods'" in metadata


COME_ALONG = {"pytest", "pydantic_core"}
"""The first loads our plug-in only; the second is pinned by pydantic, and its documents import errors from it."""


def test_its_requirements_include_all_imports(wheel: Path) -> None:
    """Libraries here come from the tests' own environment; elsewhere pip brings what the metadata name."""
    with zipfile.ZipFile(wheel) as archive:
        [metadata] = (name for name in archive.namelist() if name.endswith(".dist-info/METADATA"))
        required = re.findall(r"(?m)^Requires-Dist: ([\w.-]+)", archive.read(metadata).decode())
        sources = [archive.read(name) for name in archive.namelist() if name.endswith(".py")]
    imported: set[str] = set()
    for node in (node for source in sources for node in ast.walk(ast.parse(source))):
        if isinstance(node, ast.Import):
            imported |= {alias.name.partition(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and not node.level and node.module:
            imported.add(node.module.partition(".")[0])
    known = packages_distributions()
    outside = imported - sys.stdlib_module_names - {"bentpipe", "bentpipe_studies"} - COME_ALONG
    assert {"polars", "duckdb", "distributed", "odf"} <= outside
    asked = {name.lower().replace("_", "-") for name in required}
    lacking = {
        name for name in outside
        if not asked & {one.lower().replace("_", "-") for one in known.get(name, (name,))}
    }  # fmt: skip
    assert not lacking


def test_a_missing_entry_would_be_noticed(wheel: Path, tmp_path: Path) -> None:
    less = tmp_path / wheel.name
    with zipfile.ZipFile(wheel) as whole, zipfile.ZipFile(less, "w") as part:
        for name in whole.namelist():
            if not name.endswith(("andreotti-2025/published.toml", "report/page.css")):
                part.writestr(name, b"")
    assert load_script("wheel").missing_files(less) == {
        "studies/andreotti-2025/published.toml", "python/bentpipe/report/page.css",
    }  # fmt: skip


SHORT = ["--seeds", "1", "--set", "duration=2 s", "--set", "path.satellite.up.loss=0 %"]


def runs(installed: Installed, store: str) -> object:
    """How many runs of a store measured something."""
    question = "SELECT count(DISTINCT run) AS runs FROM flow_summary"
    return json.loads(installed.run("query", store, question, "--json"))[0]["runs"]


@pytest.mark.nightly
def test_the_demo(installed: Installed) -> None:
    assert installed.run("examples", "geo") == "geo.toml\n"
    text = (installed.folder / "geo.toml").read_text()
    assert text == (ROOT / "scenarios/geo.toml").read_text()
    installed.run("run", "geo.toml", *SHORT)
    assert runs(installed, "out/geo") == 4
    installed.run("report", "out/geo")
    assert "vegaEmbed" in (installed.folder / "out/geo/report.html").read_text()


@pytest.mark.nightly
def test_a_study(installed: Installed) -> None:
    message = json.loads(installed.run("study", "tauran-2018", "--part", "orbits", "--seeds", "1", "--json"))
    assert message["claims"] or message["rows"]
    assert all(part["done"] == part["runs"] > 0 for part in message["stores"])


PATHS = """
import pytest
from bentpipe import ScenarioError

def test_simulated(bentpipe_path):
    flow = {"congestion": "cubic", "direction": "down", "load": {"bytes": "10 kB"}}
    found = bentpipe_path("geo-konnect").simulate(flow, duration="10 s")
    assert found.metrics()["completion_p50_s"].mean() >= 0.75

def test_wrong(bentpipe_path):
    with pytest.raises(ScenarioError, match="did you mean .geo-konnect."):
        bentpipe_path("geo-konect")
    with pytest.raises(ScenarioError, match="did you mean .loss."):
        bentpipe_path("geo-konnect", {"path.konnect.up.los": "1 %"})
"""


def test_pytest_has_the_fixture(installed: Installed) -> None:
    (installed.folder / "test_path.py").write_text(PATHS)
    words = [str(installed.python), "-m", "pytest", "-q", "-p", "no:cacheprovider", "test_path.py"]
    assert "2 passed" in installed.process(words)


def test_real_time_is_found(installed: Installed) -> None:
    assert "Run a command over an emulated access network." in installed.run("shell", "--help")
    code = "from bentpipe.lab.executable import executable; print(executable())"
    found = Path(installed.process([str(installed.python), "-c", code]).strip())
    assert found.is_relative_to(installed.python.parents[1])
    answer = subprocess.run([found], env={}, capture_output=True, text=True, check=False)
    assert "usage: bentpipe-rt lab|perf|serve" in answer.stderr


@pytest.mark.lab
def test_a_command_runs_behind_an_access(installed: Installed) -> None:
    """By the executable, the access and the tables of plans that are in the wheel."""
    realtime.need_namespaces()
    words = [
        "shell",
        "lte-4g",
        "--no-path-check",
        "--isolated",
        "--",
        "sh",
        "-c",
        "echo behind $BENTPIPE_SERVER",
    ]
    assert re.search(r"(?m)^behind \d+\.\d+\.\d+\.\d+$", installed.run(*words))


@pytest.mark.nightly
def test_workers_of_a_cluster_that_have_the_wheel_alone(installed: Installed, tmp_path: Path) -> None:
    cluster = Cluster(tmp_path, str(installed.python), installed.environment)
    try:
        cluster.up()
        installed.run("examples", "geo", "--out", "cluster")
        address = f"dask://{cluster.address}"
        installed.run("run", "cluster/geo.toml", *SHORT, "--cluster", address, "--out", "out/cluster")
    finally:
        cluster.down()
    assert runs(installed, "out/cluster") == 4


def test_lazy_modules_stay_lazy(installed: Installed) -> None:
    """``import bentpipe`` takes 20 ms, of which the interpreter's own modules are most."""
    code = "import sys; before = set(sys.modules); import bentpipe; print(*set(sys.modules) - before)"
    loaded = set(installed.process([str(installed.python), "-c", code]).split())
    assert {name for name in loaded if name.partition(".")[0] not in sys.stdlib_module_names} == {"bentpipe"}


def test_a_wheel_of_another_processor_is_built_without_an_sdist(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    wheel = load_script("wheel")
    built: list[object] = []

    def build(directory: str, settings: dict[str, str]) -> str:
        built.append(settings["build-args"])
        (Path(directory) / "a.whl").touch()
        return "a.whl"

    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PATH", os.environ["PATH"])
    monkeypatch.setattr(wheel.backend, "build_wheel", build)
    monkeypatch.setattr(wheel.backend, "build_sdist", lambda directory: pytest.fail("an sdist"))
    monkeypatch.setattr(wheel, "audit", lambda wheel: None)
    monkeypatch.setattr(wheel, "missing_files", lambda wheel: set())
    monkeypatch.setattr(sys, "argv", ["wheel", str(tmp_path), "aarch64-unknown-linux-gnu"])
    wheel.main()
    assert built == [
        "--zig --compatibility manylinux_2_28 --auditwheel check --target aarch64-unknown-linux-gnu"
    ]


def test_stores_of_two_processors_are_compared_but_for_the_journal(tmp_path: Path) -> None:
    one, other = tmp_path / "one", tmp_path / "other"
    for store in (one, other):
        (store / "runs/a").mkdir(parents=True)
        (store / "runs/a/flows.parquet").write_bytes(b"1")
        (store / "journal.jsonl").write_text(str(store))
    compare = load_script("aarch64-test").differing_files
    assert compare(one, other) == []
    (other / "runs/a/flows.parquet").write_bytes(b"2")
    (one / "plan.json").touch()
    assert sorted(compare(one, other)) == ["plan.json", "runs/a/flows.parquet"]
