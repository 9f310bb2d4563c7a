"""Rights of the browser that ``bentpipe browse`` starts: an ordinary user, in Chromium's own sandbox."""

from __future__ import annotations

import http.server
import os
import shutil
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from typer.testing import CliRunner

import realtime
from bentpipe.cli import app
from bentpipe.lab.browser import privileges
from bentpipe.lab.browser.chromium import ChromiumError, stay
from commands import bentpipe

ROOT = Path(__file__).parents[2]

NOBODY = 65_534


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Temporary files, beside the test's, in a folder that others may enter."""
    with tempfile.TemporaryDirectory(prefix="bp-") as name:
        Path(name).chmod(0o711)
        monkeypatch.setenv("TMPDIR", name)
        monkeypatch.setattr(tempfile, "tempdir", None)
        yield Path(name)


class Slow(http.server.BaseHTTPRequestHandler):
    """A page that comes once it is released."""

    asked, released = threading.Event(), threading.Event()

    def do_GET(self) -> None:
        self.asked.set()
        self.released.wait(60)
        self.send_response(200)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, *_: object) -> None:
        pass


def _status(process: int) -> dict[str, list[str]]:
    """proc_pid_status(5)."""
    lines = Path(f"/proc/{process}/status").read_text().splitlines()
    return {name: rest.split() for name, _, rest in (line.partition(":") for line in lines)}


def _processes(profile: str) -> dict[int, str]:
    """Command lines of the processes of browsers whose profiles are in a folder, and of their children."""
    found: dict[int, str] = {}
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            line = (entry / "cmdline").read_bytes().decode(errors="replace").replace("\0", " ")
            if "--user-data-dir=" + profile in line or (
                "--type=" in line and profile in (entry / "environ").read_bytes().decode()
            ):
                found[int(entry.name)] = line
        except OSError:
            continue
    return found


@pytest.mark.lab
def test_a_site_is_loaded_by_a_user_without_rights_in_a_sandbox(folder: Path, tmp_path: Path) -> None:
    """Started by root, every process of the browser is nobody, has no capability, and renderers have separate namespaces."""
    realtime.need_namespaces("nft", "chromium")
    realtime.need_root("becoming nobody")
    if not privileges.has_sandbox():
        pytest.skip("this machine refuses user namespaces")
    Slow.asked.clear()
    with http.server.ThreadingHTTPServer(("", 0), Slow) as server, pytest.MonkeyPatch.context() as patch:
        patch.setenv("BENTPIPE_RT", str(realtime.program()))
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        words = [sys.executable, "-m", "bentpipe.cli", "browse", f"http://localhost:{server.server_address[1]}/",
                 "--access", "lte-4g", "--out", str(tmp_path / "o")]  # fmt: skip
        try:
            with subprocess.Popen(words, stdout=subprocess.PIPE, text=True) as process:
                assert Slow.asked.wait(60)
                found = _processes(str(folder))
                users = {number: _status(number)["Uid"] for number in found}
                rights = {number: _status(number)["CapEff"] for number in found}
                mine = Path("/proc/self/ns/user").readlink()
                spaces = {
                    n: Path(f"/proc/{n}/ns/user").readlink()
                    for n, line in found.items()
                    if "--type=renderer" in line
                }
                owners = {one.stat().st_uid for one in folder.glob("bp-*/profile")}
                Slow.released.set()
                process.communicate(timeout=60)
        finally:
            Slow.released.set()
            server.shutdown()
            thread.join()
    assert process.returncode == 0
    assert len(found) >= 3, "the browser, its zygotes, a renderer"
    assert not any("--no-sandbox" in line for line in found.values())
    assert {user for all_four in users.values() for user in all_four} == {str(NOBODY)}
    browser = [number for number, line in found.items() if "--type=" not in line]
    assert {rights[number][0].strip("0") for number in browser} == {""}
    assert spaces
    assert mine not in spaces.values()
    assert owners == {NOBODY}
    assert not list(folder.iterdir())


INSIDE = """
import subprocess
from bentpipe.lab.browser.privileges import command_prefix, has_sandbox
words = "id -u; grep CapEff /proc/self/status; touch mine; cat ../secret"
done = subprocess.run([*command_prefix(), "sh", "-c", words], capture_output=True, text=True)
print(done.stdout.split(), has_sandbox(), done.stderr)
"""


@pytest.mark.parametrize("namespace", [[], ["unshare", "--user", "--map-root-user", "--net"]])
def test_the_browser_of_root_is_not_root(folder: Path, namespace: list[str]) -> None:
    """As root of the machine, and as root of the namespace of one user, who keeps his files."""
    realtime.need_root("becoming nobody")
    if namespace and subprocess.run([*namespace, "true"], capture_output=True).returncode:
        pytest.skip("this machine refuses user namespaces")
    (folder / "home").mkdir()
    (folder / "home").chmod(0o777)
    (folder / "secret").write_text("not for everybody")
    (folder / "secret").chmod(0o600)
    done = subprocess.run(
        [*namespace, sys.executable, "-c", INSIDE], cwd=folder / "home", capture_output=True, text=True, check=True,
        env=os.environ | {"PYTHONPATH": str(ROOT / "python")},
    )  # fmt: skip
    message = done.stdout
    assert message.startswith(f"['{NOBODY}', 'CapEff:', '0000000000000000'"), message + done.stderr
    assert "True" in message
    owner = (folder / "home" / "mine").stat().st_uid
    # One user's files stay his: there is no other user in the namespace.
    assert owner == (os.getuid() if namespace else NOBODY)
    assert ("not for everybody" in message.replace("', '", " ")) == bool(namespace)


def test_without_a_sandbox_a_foreign_site_needs_an_option(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One line that names it, before anything starts; pages that bentpipe makes itself need none."""
    monkeypatch.setattr(privileges, "has_sandbox", lambda: False)
    with pytest.raises(ChromiumError, match="--without-sandbox to load the site without the sandbox"):
        privileges.require_sandbox(without=False)
    assert privileges.require_sandbox(without=True) is False
    assert privileges.require_sandbox(without=False, foreign=False) is False
    monkeypatch.setattr("bentpipe.lab.browser.chromium.find", lambda: Path("chromium"))
    for words in (
        ["http://x/", "--access", "lte-4g"],
        ["target-b", "--remote", "127.0.0.1:9", "--spki", "A" * 43 + "="],
    ):
        done = bentpipe(tmp_path, "browse", *words, "--out", "o")
        assert (done.returncode, done.stdout, done.stderr.count("\n")) == (2, "", 1), done.stderr
        assert "user namespaces, which this host does not allow; use --without-sandbox" in done.stderr
    assert not (tmp_path / "o").exists()
    assert not list(folder.iterdir())


@pytest.mark.parametrize("foreign", [True, False])
def test_the_option_leaves_a_sandbox_out_that_can_be_had(
    monkeypatch: pytest.MonkeyPatch, foreign: bool
) -> None:
    """Namespaces may be there and Chromium's own sandbox fail: the option is then the only way."""
    monkeypatch.setattr(privileges, "has_sandbox", lambda: True)
    assert privileges.require_sandbox(without=True, foreign=foreign) is False
    assert privileges.require_sandbox(without=False, foreign=foreign) is True


@pytest.mark.parametrize("found", [True, False])
@pytest.mark.parametrize("words", [[], ["--without-sandbox"]])
def test_the_lab_of_a_local_page_gets_the_option(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, found: bool, words: list[str]
) -> None:
    """The browser runs without a sandbox; if there is one, it is used unless the option disables it."""
    messages: list[bool] = []

    class Seen(Exception):
        pass

    def runner(*given: object) -> None:
        messages.append(bool(given[-1]))
        raise Seen

    monkeypatch.setattr(privileges, "has_sandbox", lambda: found)
    monkeypatch.setattr("bentpipe.lab.browser.chromium.find", lambda: Path("chromium"))
    monkeypatch.setattr("bentpipe.lab.browser.chromium.version", lambda _: "Chromium 156")
    monkeypatch.setattr("bentpipe.lab.executable.executable", lambda: Path("bentpipe-rt"))
    monkeypatch.setattr("bentpipe.lab.browser.runner.BrowserRunner", runner)
    monkeypatch.chdir(tmp_path)
    done = CliRunner().invoke(app, ["browse", "target-b", "--access", "lte-4g", "--out", "o", *words])
    assert isinstance(done.exception, Seen), done.output
    assert messages == [found and not words]


def test_files_of_a_browser_are_taken_without_following_links(tmp_path: Path) -> None:
    """A browser that was taken over may leave a link, or a pipe, in the place of its own log."""
    (tmp_path / "secret").write_text("not the browser's")
    (tmp_path / "log").write_text("its own")
    assert privileges.take_file(tmp_path / "log", tmp_path / "kept")
    assert (tmp_path / "kept").read_text() == "its own"
    (tmp_path / "link").symlink_to(tmp_path / "secret")
    os.mkfifo(tmp_path / "pipe")
    for name in ("link", "pipe", "none"):
        assert not privileges.take_file(tmp_path / name, tmp_path / "other")
    assert not (tmp_path / "other").exists()


def test_a_browsers_folder_is_where_its_user_may_enter(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    realtime.need_root("another user than the browser's")
    assert privileges.browser_home("x-").parent == folder
    folder.chmod(0o700)
    assert folder not in privileges.browser_home("x-").parents
    monkeypatch.setattr(privileges, "_is_open", lambda _: False)
    with pytest.raises(ChromiumError, match=rf"TMPDIR is {folder}, not accessible to the user nobody"):
        privileges.browser_home("x-")


@pytest.mark.parametrize("user", [0, 1000])
@pytest.mark.parametrize(("longer", "stays"), [(3, True), (44, False), (190, False)])
def test_a_browsers_folder_is_where_its_temporary_files_may_be(
    folder: Path, monkeypatch: pytest.MonkeyPatch, user: int, longer: int, stays: bool
) -> None:
    """A socket's name is short.

    In a folder with a too long path TMPDIR would remain that of root, where nobody may not write.
    """
    if user == 0:
        realtime.need_root("another user than the browser's")
    place = folder / ("x" * longer)
    place.mkdir(mode=0o711)
    monkeypatch.setattr(tempfile, "tempdir", str(place))
    monkeypatch.setattr(os, "geteuid", lambda: user)
    home = privileges.browser_home("bp-")
    assert (home.parent == place) == stays
    home.mkdir()
    monkeypatch.setenv("TMPDIR", "before")
    try:
        stay(str(privileges.prepare(home)))
        assert os.environ["TMPDIR"] == str(home / "tmp")
    finally:
        shutil.rmtree(home)
    monkeypatch.setattr(privileges, "_is_open", lambda one: one == place)
    monkeypatch.setattr(os, "access", lambda *_, **__: False)
    if user == 0 and not stays:
        with pytest.raises(ChromiumError, match=rf"TMPDIR is {place}, a path too long for a socket; exp"):
            privileges.browser_home("bp-")
    else:
        assert privileges.browser_home("bp-").parent == place
