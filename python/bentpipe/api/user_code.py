"""User-supplied classes: import from files (``FILE.py:CLASS``), transfer to workers, fingerprints."""

from __future__ import annotations

import base64
import hashlib
import inspect
import sys
import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from bentpipe.plan.flow.controllers import LOCATION, located_controllers
from bentpipe.plan.link.scheduler import SCHEDULER_PREFIX
from bentpipe.runners import engine
from bentpipe.runners.user_modules import file_of, module_in_file
from bentpipe.runners.worker_process import format_error
from bentpipe.scenario.errors import SOURCE_ARGUMENT, ScenarioError, unknown_name
from bentpipe.scenario.link.scheduler import SCHEDULERS
from bentpipe.scenario.quantity_text import nearest, nearest_file

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence
    from types import CodeType, ModuleType

    from bentpipe.plan.document import ScenarioDocument

__all__ = [
    "CONTROLLER", "SCHEDULER", "Kind", "UserCodeWarning", "check_user_classes", "controller_aliases", "fingerprint",
    "import_path", "load_class", "load_controllers", "pickle_class", "scenario_controllers",
]  # fmt: skip

_KEY = "--controller"
"""Option of the messages."""


class Kind(NamedTuple):
    """Kind of user-supplied class: its name in messages, and the method that makes a class one of it."""

    name: str
    method: str


CONTROLLER = Kind("controller", "on_event")
SCHEDULER = Kind("scheduler", "choose")


class UserCodeWarning(UserWarning):
    """User-supplied class that runs in this process, one run at a time."""


def check_user_classes(
    controllers: Mapping[str, type | str] | None, schedulers: Mapping[str, type | str] | None
) -> dict[str, type]:
    """Return user-supplied classes by name; schedulers have a prefix.

    A text ``FILE.py:CLASS`` stands for the class of that file.

    Raises:
        ScenarioError: not a mapping of names and classes, a class without its method, or a name of the engine.
    """
    kinds: tuple[tuple[str, Any, Kind, Collection[str]], ...] = (
        ("controllers", controllers, CONTROLLER, _built_in_controllers()),
        ("schedulers", schedulers, SCHEDULER, SCHEDULERS),
    )
    problems: list[tuple[str, str]] = []
    found: dict[str, type] = {}
    for argument, classes, kind, taken in kinds:
        if classes is None:
            continue
        if not isinstance(classes, Mapping):
            given = classes.__name__ if isinstance(classes, type) else repr(classes)
            problems.append((argument, f'found {given}, expected names and classes such as {{"mine": Mine}}'))
            continue
        for name, class_ in classes.items():
            if not isinstance(name, str) or not name:
                problems.append((argument, f"found the name {name!r}, expected text"))
                continue
            try:
                prefix = SCHEDULER_PREFIX if kind is SCHEDULER else ""
                found[prefix + name] = _check_user_class(name, class_, kind, taken)
            except ValueError as error:
                problems.append((f"{argument}.{name}", str(error)))
    if problems:
        raise ScenarioError(problems, SOURCE_ARGUMENT)
    return found


def _check_user_class(name: str, given: object, kind: Kind, taken: Collection[str]) -> type:
    """Return the class of an argument of Python. Raises ValueError."""
    if name in taken:
        raise ValueError(_built_in(name))
    if isinstance(given, str):
        return load_class(given, kind)
    if not isinstance(given, type):
        raise ValueError(f'found {given!r}, expected a class or a text "FILE.py:CLASS"')  # noqa: TRY004 - a message
    if not callable(getattr(given, kind.method, None)):
        raise ValueError(f"{given.__name__} has no method {kind.method}, expected a class with it")  # noqa: TRY004
    return given


def controller_aliases(texts: Sequence[str]) -> dict[str, str]:
    """Return the built-in controllers of ``NAME=CONTROLLER`` texts by name."""
    built_in = _built_in_controllers()
    pairs = [text.partition("=") for text in texts]
    return {name: controller for name, _, controller in pairs if name and controller in built_in}


def load_controllers(texts: Sequence[str]) -> dict[str, type]:
    """Return the classes of ``NAME=FILE.py:CLASS`` texts by name; without ``NAME=`` the text itself is the name.

    Texts ``NAME=CONTROLLER`` with a built-in controller have no class; :func:`controller_aliases` returns them.

    Raises:
        ScenarioError: no such file or class, a failed import, or a name of the engine.
    """
    classes: dict[str, type] = {}
    taken = _built_in_controllers()
    names: set[str] = set()
    for text in texts:
        name, separator, location = text.partition("=")
        if not separator:
            location = name
        is_built_in = bool(separator) and location in taken
        if not name or not (is_built_in or LOCATION.fullmatch(location)):
            near = nearest(location, taken) if separator and name else None
            hint = f'; did you mean "{name}={near}"?' if near else ""
            example = 'expected [NAME=]FILE.py:CLASS such as "mine=cc.py:Mine"'
            raise ScenarioError([(_KEY, f'found "{text}", {example}{hint}')])
        if name in names:
            raise ScenarioError([(_KEY, f'duplicate name "{name}", expected a unique name for each')])
        if name in taken:
            raise ScenarioError([(_KEY, _built_in(name))])
        names.add(name)
        if is_built_in:
            continue
        try:
            classes[name] = load_class(location, CONTROLLER)
        except ValueError as error:
            raise ScenarioError([(_KEY, str(error))]) from error
    return classes


def scenario_controllers(document: ScenarioDocument) -> dict[str, type]:
    """Return the classes that a scenario names as ``FILE.py:CLASS``, by that text.

    Raises:
        ScenarioError: no such file or class, or a failed import, with the key of each.
    """
    classes: dict[str, type] = {}
    problems: list[tuple[str, str]] = []
    for location, key in located_controllers(document.data).items():
        try:
            classes[location] = load_class(location, CONTROLLER, document.folder)
        except ValueError as error:
            problems.append((key, str(error)))
    if problems:
        raise ScenarioError(problems, document.name)
    return classes


def load_class(location: str, kind: Kind, folder: Path | None = None) -> type:
    """Return the class ``FILE.py:CLASS``, or the only class of its kind of ``FILE.py``.

    Args:
        location: the file, and the class after a colon.
        kind: controller or scheduler.
        folder: the folder of relative names; None for the current one.

    Raises:
        ValueError: no such file or class, several classes without a choice, or a failed import.
    """
    if (found := LOCATION.fullmatch(location)) is None:
        raise ValueError(f'found "{location}", expected FILE.py:CLASS')
    shown, class_name = Path(found["file"]), found["class"]
    module = _load_module(shown if folder is None else folder / shown, shown)
    members = {
        name: member
        for name, member in vars(module).items()
        if isinstance(member, type) and callable(getattr(member, kind.method, None))
    }
    if class_name is None:
        own = [name for name, member in members.items() if member.__module__ == module.__name__]
        if len(own) > 1:
            choices = " or ".join(f'"{shown}:{name}"' for name in own)
            raise ValueError(f"{shown}: has {len(own)} {kind.name} classes, expected {choices}")
        if not own:
            raise ValueError(f"{shown}: no {kind.name} class, expected one with a method {kind.method}")
        return members[own[0]]
    if class_name not in members:
        text = unknown_name(class_name, members, f"{kind.name} class")
        if isinstance(getattr(module, class_name, None), type):
            text = f'class "{class_name}" is not a {kind.name}, expected a method {kind.method}'
        elif not members:
            text = f'no class "{class_name}", expected one with a method {kind.method}'
        raise ValueError(f"{shown}: {text}")
    return members[class_name]


def _load_module(path: Path, shown: Path) -> ModuleType:
    """Import a file, which messages call ``shown``. Raises ValueError."""
    if not path.is_file():
        siblings = [one.name for one in path.parent.glob("*.py")] if path.parent.is_dir() else []
        near = nearest_file(path.name, siblings)
        hint = f'; did you mean "{shown.with_name(near)}"?' if near else ""
        raise ValueError(f'no file "{shown}"{hint}')
    try:
        return module_in_file(path.resolve())
    except (Exception, SystemExit) as error:
        raise ValueError(f"{shown} cannot be imported: {format_error(error)}") from error


def _built_in_controllers() -> set[str]:
    return {name for entry in engine.catalogue() for name in (entry["scenario_name"], *entry["aliases"])}


def _built_in(name: str) -> str:
    return f'"{name}" is a built-in name, expected another name'


def import_path(kind: type) -> str | None:
    """Return ``module:Class`` or ``FILE.py:Class`` for another process; None if it cannot import the class."""
    module, name = kind.__module__, kind.__qualname__
    if (file := file_of(module)) is not None and "<locals>" not in name:
        return f"{file}:{name}"
    if module in ("__main__", "builtins") or "<locals>" in name or module not in sys.modules:
        return None
    return f"{module}:{name}" if getattr(sys.modules[module], "__file__", None) else None


def pickle_class(kind: type) -> str:
    """Return a class of ``__main__`` or of a function as text for another process.

    Raises:
        ValueError: cloudpickle is not installed or rejects the class; the message states the consequence and the fix.
    """
    fix = "or move the class into a module, for runs on all cores"
    consequence = f"{kind.__name__} runs in this process, one run at a time"
    try:
        import cloudpickle
    except ModuleNotFoundError:
        raise ValueError(f"{consequence}; install cloudpickle (pip install cloudpickle), {fix}") from None
    try:
        with warnings.catch_warnings():  # cloudpickle reads attributes of every imported module
            warnings.simplefilter("ignore", DeprecationWarning)
            return base64.b64encode(cloudpickle.dumps(kind)).decode()
    except Exception as error:  # noqa: BLE001 - a class may refer to anything
        cause = str(error) or type(error).__name__
        raise ValueError(
            f"{consequence}, because cloudpickle rejects it ({cause}); remove that reference, {fix}"
        ) from None


def fingerprint(kind: type) -> str:
    """Return a hash of the source (or byte code) of a class, so that a changed class gets new run ids."""
    try:
        text = inspect.getsource(sys.modules[kind.__module__])
    except (OSError, TypeError, KeyError):
        codes = [member.__code__ for _, member in sorted(inspect.getmembers(kind, inspect.isfunction))]
        text = repr([_code(code) for code in codes])
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def _code(code: CodeType) -> tuple[object, ...]:
    """Return byte code without addresses, which differ between processes."""
    constants = [_code(const) if inspect.iscode(const) else const for const in code.co_consts]
    return code.co_code, constants, code.co_names
