"""Files of one crate use each other in one direction. No file uses an item of a file that uses one of its items,
directly or not.

A use is a path outside of tests, in a declaration or in code. It leads to the file that defines the item, past
re-exports. Three things are no use. The first is a re-export of a file below, which is the content of a folder. The
second is a member of a `kind!`, for the same reason. The third is the type of an inherent `impl` block: the methods of one
type may be in several files.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

CRATES = Path(__file__).parents[2] / "crates"

LEFT = {
    "transport": (
        re.compile(r"(datagram|endpoint)\.rs|quic/.*"),
        "an endpoint gives access to its QUIC stack for qlog, and the files of the stack share one connection table",
    )
}
"""Circles that remain, by crate: the files, and the reason."""

Module = tuple[str, ...]
"""The path of a module with a file, from its crate."""

Uses = dict[Module, dict[Module, set[str]]]
"""By module and used module, the items."""

NOT_CODE = re.compile(
    r"""//[^\n]*|/\*.*?\*/|(?<!\w)b?r(?P<hashes>\#*)".*?"(?P=hashes)|"(?:\\.|[^"\\])*"|'(?:\\[^']*|[^\\'])'""", re.DOTALL
)  # fmt: skip
"""Comments and literals."""

KIND_MEMBERS = re.compile(r"(\bkind!\s*\{\s*\w+)[^{]*\{[^}]*\}")
"""The members of a `kind!`, which are the content of a folder, as re-exports are."""

TEST_ONLY = re.compile(r"#\[cfg\((?:test|any\(test|feature = \"test)[^\]]*\](?:\s*#\[[^\]]*\])*")
DECLARATION = re.compile(r"(?P<public>\bpub(?:\([a-z: ]+\))?\s+)?\buse\s+(?P<tree>[^;]+);")
DEFINITION = re.compile(r"(?:\b(?:struct|enum|trait|fn|type|const|static)\s+|\bkind!\s*\{\s*)(\w+)")
INHERENT = re.compile(r"\bimpl(?:<[^{;]*?>)?\s+(\w+)(?:<[^{;]*?>)?\s*\{")
PATH = re.compile(r"(?<![\w:])(?:[a-z_]\w*::)+\w+")


def end_of_item(code: str, start: int) -> int:
    """The end of the item from `start` on: its closing brace, or a semicolon before any brace."""
    depth = 0
    for at in range(start, len(code)):
        depth += (code[at] in "{([") - (code[at] in "})]")
        if depth == 0 and (code[at] == ";" or (code[at] == "}" and code[at + 1 : at + 2] != ";")):
            return at + 1
    return len(code)


def code_of(text: str) -> str:
    """Rust without comments, literals and items of tests."""
    code = KIND_MEMBERS.sub(r"\1 ", NOT_CODE.sub(" ", text))
    while found := TEST_ONLY.search(code):
        code = code[: found.start()] + code[end_of_item(code, found.end()) :]
    return code


def declared(tree: str) -> Iterator[tuple[list[str], str]]:
    """The paths of the tree of a `use`, each with the name that it gives."""
    depth, start, parts = 0, 0, []
    for at, sign in enumerate(tree):
        depth += (sign == "{") - (sign == "}")
        if sign == "," and depth == 0:
            parts.append(tree[start:at])
            start = at + 1
    for part in filter(str.strip, [*parts, tree[start:]]):
        before, brace, inner = part.partition("{")
        words = before.replace(" as ", "::").split("::")
        path = [word.strip() for word in words if word.strip()]
        if brace:
            yield from (([*path, *rest], name) for rest, name in declared(inner.rpartition("}")[0]))
        else:
            yield (path[:-1] if " as " in before else path), path[-1]


class Crate:
    """The modules of a crate."""

    def __init__(self, source: Path) -> None:
        self.source = source
        self.files: dict[Module, Path] = {}
        self.code: dict[Module, str] = {}
        self._load((), next(file for name in ("lib.rs", "main.rs") if (file := source / name).exists()))
        self.defined = {module: set(DEFINITION.findall(code)) for module, code in self.code.items()}
        self.named: dict[Module, dict[str, tuple[Module, str] | None]] = {module: {} for module in self.code}
        """Names from declarations; `None` is an item of another crate."""
        self.globs: dict[Module, list[Module]] = {module: [] for module in self.code}
        for module, code in self.code.items():
            for declaration in DECLARATION.finditer(code):
                for path, name in declared(declaration["tree"]):
                    found = self.target(module, path)
                    if name == "*":
                        self.globs[module] += [found[0]] if found else []
                    else:
                        self.named[module][path[-2] if name == "self" else name] = found

    def _load(self, module: Module, file: Path) -> None:
        self.files[module] = file
        self.code[module] = code_of(file.read_text(encoding="utf-8"))
        folder = file.parent if file.name in ("lib.rs", "main.rs", "mod.rs") else file.with_suffix("")
        for name in re.findall(r"\bmod\s+(\w+)\s*;", self.code[module]):
            for below in (folder / f"{name}.rs", folder / name / "mod.rs"):
                if below.exists():
                    self._load((*module, name), below)

    def target(self, module: Module, path: list[str]) -> tuple[Module, str] | None:
        """The module to which a path in `module` leads, and the item there or ""; `None` for another crate."""
        at = module
        if path[0] == "crate":
            at, path = (), path[1:]
        elif path[0] not in ("self", "super") and (*module, path[0]) not in self.files:
            imported = self.named[module].get(path[0])
            if imported is None or imported[1]:
                return None
            at, path = imported[0], path[1:]
        while path and path[0] in ("self", "super"):
            at, path = (at[:-1] if path[0] == "super" else at), path[1:]
        while path and (*at, path[0]) in self.files:
            at, path = (*at, path[0]), path[1:]
        return at, path[0] if path and path[0] != "self" else ""

    def definer(self, module: Module, name: str, seen: frozenset[Module] = frozenset()) -> Module | None:
        """The module that defines the item `name` of `module`; `None` if no module of the crate does."""
        if name in self.defined[module]:
            return module
        if module in seen:
            return None
        if name in self.named[module]:
            found = self.named[module][name]
            return self.definer(*found, seen | {module}) if found and found[1] else None
        ways = (self.definer(glob, name, seen | {module}) for glob in self.globs[module])
        return next((found for found in ways if found is not None), None)

    def uses(self) -> Uses:
        """The uses of each module."""
        uses: Uses = {}
        for module, code in self.code.items():
            body = re.sub(r"pub\(in [a-z:]+\)", "", DECLARATION.sub("", code))
            found = [self.target(module, path.split("::")) for path in PATH.findall(body)]
            for declaration in DECLARATION.finditer(code):
                for path, name in declared(declaration["tree"]):
                    to = self.target(module, path)
                    is_content = declaration["public"] and to and to[0][: len(module)] == module
                    if not is_content or re.search(rf"\b{re.escape(name)}\b", body):
                        found.append(to)
            inherent = set(INHERENT.findall(code))
            for to, item in filter(None, found):
                used = self.definer(to, item)
                if used not in (None, module) and item not in inherent:
                    uses.setdefault(module, {}).setdefault(used, set()).add(item)
        return uses

    def name(self, module: Module) -> str:
        return self.files[module].relative_to(self.source).as_posix()


def circles(uses: Uses) -> list[set[Module]]:
    """The sets of modules of which each uses every other, directly or not."""

    def reached(module: Module) -> set[Module]:
        seen: set[Module] = set()
        ahead = [module]
        while ahead:
            new = uses.get(ahead.pop(), {}).keys() - seen
            seen |= new
            ahead += new
        return seen

    reach = {module: reached(module) for module in uses}
    inside = [module for module in uses if module in reach[module]]
    return [
        set(group)
        for group in {frozenset(m for m in inside if m in reach[n] and n in reach[m]) for n in inside}
    ]


@pytest.mark.parametrize("source", sorted(CRATES.glob("*/src")), ids=lambda source: source.parent.name)
def test_files_use_each_other_in_one_direction(source: Path) -> None:
    crate = Crate(source)
    uses = crate.uses()
    found = {frozenset(map(crate.name, circle)): circle for circle in circles(uses)}
    files, _ = LEFT.get(source.parent.name, (re.compile("(?!)"), ""))
    left = {names for names in found if all(files.fullmatch(name) for name in names)}
    assert bool(left) == (source.parent.name in LEFT), "a circle that no longer remains"
    lines = [
        f"{crate.name(one)} uses {', '.join(sorted(items))} of {crate.name(other)}"
        for names in found.keys() - left
        for one in sorted(found[names])
        for other, items in sorted(uses[one].items())
        if other in found[names]
    ]
    assert not lines, "\n".join(["circles:", *lines])


def write(folder: Path, **files: str) -> dict[Module, dict[Module, set[str]]]:
    for name, text in files.items():
        (folder / f"{name}.rs").write_text(text)
    return Crate(folder).uses()


@pytest.mark.parametrize(
    ("one", "other", "expected"),
    [
        ("use crate::other::B;\npub struct A(B);", "use super::one::A;\npub struct B(Box<A>);", 1),
        ("use crate::B;\npub struct A(B);", "pub struct B;\nfn f() { crate::one::A(B); }", 1),
        (
            "use super::other;\npub fn a() { other::b() }",
            "use crate::*;\npub fn b() { crate::A; }\npub struct B;",
            0,
        ),
        ("use crate::B;\npub struct A(B);", "use crate::A;\npub struct B;\nimpl A { fn f() {} }", 0),
        (
            "use crate::B;\npub struct A(B);",
            "pub struct B;\n#[cfg(test)]\nmod tests { use crate::one::A; }",
            0,
        ),
        (
            "use crate::B;\npub struct A(B);",
            'pub struct B; // use crate::one::A;\nconst C: &str = "crate::A";',
            0,
        ),
    ],
    ids=[
        "declared",
        "path through a re-export",
        "one direction",
        "methods",
        "a test",
        "a comment and a literal",
    ],
)
def test_a_circle_is_found(tmp_path: Path, one: str, other: str, expected: int) -> None:
    lib = "mod one;\nmod other;\npub use one::*;\npub use other::B;"
    assert len(circles(write(tmp_path, lib=lib, one=one, other=other))) == expected


def test_a_folder_may_list_its_files_but_not_use_them_from_below(tmp_path: Path) -> None:
    below = "use crate::Limit;\npub struct A(Limit);"
    content = write(tmp_path, lib="mod one;\npub use one::A;\npub struct Limit;", one=below)
    assert circles(content) == []
    used = write(tmp_path, lib="mod one;\npub use one::A;\npub struct Limit;\nfn f(_: A) {}", one=below)
    assert circles(used) == [{(), ("one",)}]
