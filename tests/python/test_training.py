"""``make train`` and what compiles by it (docs/decisions/0078), as far as nothing is compiled: that takes minutes."""

from __future__ import annotations

import hashlib
import re
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
WORK = re.compile(r"^(\d+) ([a-z0-9/-]+)(?: ([a-z.]+)=(\S+))?$", re.MULTILINE)


def compiler(folder: Path) -> dict[str, str]:
    """Return an environment with a script as ``rustc`` that answers as requested here."""
    message = '-vV) cat "$0.version" ;; *host*) echo some-host ;; *) echo "$(dirname "$0")/lib" ;;'
    (folder / "rustc").write_text(f'#!/bin/sh\ncase "$*" in {message} esac\n')
    (folder / "rustc").chmod(0o755)
    (folder / "rustc.version").write_text("rustc 1\n")
    return {"PATH": f"{folder}:/usr/bin:/bin", "CARGO_TARGET_DIR": str(folder / "target")}


def no_rust(folder: Path) -> Path:
    """A folder with the system's bash alone, where no rustc is."""
    place = folder / "system"
    place.mkdir()
    for name in ("bash", "realpath", "dirname"):
        (place / name).symlink_to(f"/usr/bin/{name}")
    return place


def counted_with(version: int) -> str:
    """Return the identity of the compiler that is stored beside a profile."""
    return hashlib.sha256(f"rustc {version}\n".encode()).hexdigest() + "  -\n"


def guided(environment: dict[str, str]) -> list[str]:
    """Return the results of ``. scripts/guided``: profile, folder, flags and target."""
    words = '. scripts/guided one; echo "$guide;$built;${RUSTFLAGS:-};${CARGO_BUILD_TARGET:-}"'
    done = subprocess.run(
        ["bash", "-euc", words], cwd=ROOT, env=environment, capture_output=True, text=True, check=True
    )
    assert not done.stderr
    return done.stdout.strip().split(";")


def train(*words: str, environment: dict[str, str]) -> subprocess.CompletedProcess[str]:
    """Run ``scripts/train``."""
    command = [ROOT / "scripts/train", *words]
    return subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True)


def test_a_profile_is_used_only_with_the_compiler_that_made_it(tmp_path: Path) -> None:
    environment = compiler(tmp_path)
    target = tmp_path / "target"
    plain = ["", f"{target}/release", "", ""]
    assert guided(environment) == plain

    (target / "training/one").mkdir(parents=True)
    counts = target / "training/one/0123456789abcdef.profdata"
    counts.write_bytes(b"counts")
    (target / "training/one/rustc").write_text(counted_with(1))
    llvm = "-Cllvm-args=-no-pgo-warn-mismatch -Cllvm-args=-enable-ext-tsp-block-placement"
    flags = f"-Cprofile-use={counts} {llvm}"
    assert guided(environment) == [str(counts), f"{target}/some-host/release", flags, "some-host"]

    (tmp_path / "rustc.version").write_text("rustc 2\n")
    assert guided(environment) == plain


def test_a_demo_keeps_the_engine_that_is_guided(tmp_path: Path) -> None:
    environment = compiler(tmp_path)
    (tmp_path / "make").write_text('#!/bin/sh\necho "$@"\nexit 3\n')
    (tmp_path / "make").chmod(0o755)
    for name in ("training/cargo/0123456789abcdef.profdata", "some-host/release/lib_engine.so"):
        (tmp_path / "target" / name).parent.mkdir(parents=True)
        (tmp_path / "target" / name).touch()
    for version, profile in ((1, "release"), (2, "demo")):
        (tmp_path / "target/training/cargo/rustc").write_text(counted_with(version))
        done = subprocess.run(
            [ROOT / "scripts/demo", "out"], cwd=ROOT, env=environment, capture_output=True, text=True
        )
        assert (done.returncode, done.stdout) == (3, f"-j2 venv engine CARGO_PROFILE={profile}\n"), done


@pytest.mark.parametrize("rustup", [True, False])
def test_without_what_merges_counts_nothing_is_begun(rustup: bool, tmp_path: Path) -> None:
    """`make wheel` and `make train` say so too, before they make an environment or compile."""
    environment = compiler(tmp_path)
    (tmp_path / "rustc.version").write_text("rustc 1\nLLVM version: 21.1.8\n")
    remedy = "name one of LLVM 21 in LLVM_PROFDATA (Debian: llvm-21)"
    if rustup:
        (tmp_path / "rustup").write_text("#!/bin/sh\n")
        (tmp_path / "rustup").chmod(0o755)
        remedy = "install it with `rustup component add llvm-tools`"
    output = f"error: no llvm-profdata at {tmp_path}/bin/llvm-profdata; {remedy}\n"
    done = train("one", "false", environment=environment)
    assert (done.returncode, done.stderr) == (1, output)
    for target in ("wheel", "train"):
        made = subprocess.run(
            ["make", target, f"PYTHON={tmp_path}/no-python"],
            cwd=ROOT, env=environment, capture_output=True, text=True, check=False,
        )  # fmt: skip
        assert (made.returncode, made.stdout) == (2, ""), made
        assert made.stderr.startswith(output)
    assert not (tmp_path / "target").exists()
    (tmp_path / "rustc").unlink()
    done = train("one", "false", environment=environment | {"PATH": f"{tmp_path}:{no_rust(tmp_path)}"})
    assert (done.returncode, done.stderr) == (1, "error: no rustc; install a Rust toolchain with rustup\n")


def test_a_folder_that_flags_cannot_name_is_refused(tmp_path: Path) -> None:
    environment = compiler(tmp_path) | {
        "CARGO_TARGET_DIR": str(tmp_path / "my target"),
        "LLVM_PROFDATA": "true",
    }
    done = train("one", "false", environment=environment)
    place = tmp_path / "my target/training/one"
    assert (done.returncode, done.stderr) == (
        1,
        f"train: {place} has a space, which RUSTFLAGS cannot quote\n",
    )
    assert not place.parent.exists()


def test_an_engine_that_is_not_built_leaves_the_counts_there_are(tmp_path: Path) -> None:
    environment = compiler(tmp_path) | {"LLVM_PROFDATA": "true"}
    saved = tmp_path / "target/training/one/0123456789abcdef.profdata"
    saved.parent.mkdir(parents=True)
    saved.write_bytes(b"counts")
    done = train(
        "one", "sh", "-c", 'test "$RUSTFLAGS" = -Cprofile-generate && exit 9', environment=environment
    )
    assert done.returncode == 9, done
    assert saved.read_bytes() == b"counts"


def test_training_scenarios_accept_their_settings() -> None:
    pytest.importorskip("bentpipe._engine")
    import bentpipe

    works = WORK.findall((ROOT / "scripts/train").read_text())
    assert len(works) > 10
    for weight, name, key, value in works:
        assert int(weight) > 0
        bentpipe.check(ROOT / f"scenarios/{name}.toml", settings={key: value} if key else {}, seeds=1)
