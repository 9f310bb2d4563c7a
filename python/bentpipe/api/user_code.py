"""User-supplied classes: import from files (``NAME=FILE.py:CLASS``), transfer to workers, fingerprints."""

from __future__ import annotations

import base64
import hashlib
import inspect
import sys
import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bentpipe.plan.link.scheduler import SCHEDULER_PREFIX
from bentpipe.runners import engine
from bentpipe.runners.user_modules import module_of
from bentpipe.runners.worker_process import format_error
from bentpipe.scenario.errors import SOURCE_ARGUMENT, ScenarioError, unknown_name
from bentpipe.scenario.link.scheduler import SCHEDULERS
from bentpipe.scenario.quantity_text import nearest_file

if TYPE_CHECKING:
    from collections.abc import Sequence
    from types import CodeType

__all__ = [
    "UserCodeWarning", "check_user_classes", "fingerprint", "import_path", "load_controllers", "pickle_class",
]  # fmt: skip

_KEY = "--controller"
"""Option of the messages."""

_EXAMPLE = "mine=cc.py:Mine"
"""Valid argument of the option."""


class UserCodeWarning(UserWarning):
    """User-supplied class that runs in this process, one run at a time."""


def check_user_classes(
    controllers: Mapping[str, type] | None, schedulers: Mapping[str, type] | None
) -> dict[str, type]:
    """Return user-supplied classes by name; schedulers have a prefix.

    Raises:
        ScenarioError: not a mapping of names and classes, a class without its method, or a name of the engine.
    """
    taken = [name for entry in engine.catalogue() for name in (entry["scenario_name"], *entry["aliases"])]
    kinds: tuple[tuple[str, Any, str, Sequence[str]], ...] = (
        ("controllers", controllers, "on_event", taken),
        ("schedulers", schedulers, "choose", SCHEDULERS),
    )
    problems: list[tuple[str, str]] = []
    for argument, classes, method, names in kinds:
        if classes is None:
            continue
        if not isinstance(classes, Mapping):
            found = classes.__name__ if isinstance(classes, type) else repr(classes)
            problems.append((argument, f'found {found}, expected names and classes such as {{"mine": Mine}}'))
            continue
        for name, class_ in classes.items():
            if name in names:
                problems.append((f"{argument}.{name}", f'"{name}" is a built-in name, expected another name'))
            elif not isinstance(name, str) or not name:
                problems.append((argument, f"found the name {name!r}, expected text"))
            elif not isinstance(class_, type):
                problems.append((f"{argument}.{name}", f"found {class_!r}, expected a class"))
            elif not callable(getattr(class_, method, None)):
                text = f"{class_.__name__} has no method {method}, expected a class with it"
                problems.append((f"{argument}.{name}", text))
    if problems:
        raise ScenarioError(problems, SOURCE_ARGUMENT)
    return dict(controllers or {}) | {
        SCHEDULER_PREFIX + name: class_ for name, class_ in (schedulers or {}).items()
    }


def load_controllers(texts: Sequence[str]) -> dict[str, type]:
    """Return the classes of ``NAME=FILE.py:CLASS`` texts by name.

    A file is imported as a module of its name, as in the workers. Its directory is appended to the module search path.

    Raises:
        ScenarioError: no such file or class, a failed import, or a name of the engine.
    """
    classes: dict[str, type] = {}
    taken = {name for entry in engine.catalogue() for name in (entry["scenario_name"], *entry["aliases"])}
    for text in texts:
        name, _, location = text.partition("=")
        file, _, class_name = location.rpartition(":")
        if not name or not file.endswith(".py") or not class_name:
            raise ScenarioError([(_KEY, f'found "{text}", expected NAME=FILE.py:CLASS such as "{_EXAMPLE}"')])
        if name in classes:
            raise ScenarioError([(_KEY, f'duplicate name "{name}", expected a unique name for each')])
        if name in taken:
            raise ScenarioError([(_KEY, f'"{name}" is a built-in name, expected another name')])
        classes[name] = _load_class(Path(file), class_name)
    return classes


def _load_class(path: Path, class_name: str) -> type:
    """Return a class of a file. Raises ScenarioError."""
    if not path.is_file():
        near = (
            nearest_file(path.name, [member.name for member in path.parent.glob("*.py")])
            if path.parent.is_dir()
            else None
        )
        hint = f'; did you mean "{path.with_name(near)}"?' if near else ""
        raise ScenarioError([(_KEY, f'no file "{path}"{hint}')])
    if not path.stem.isidentifier():
        text = (
            f'"{path.name}" cannot be imported: its name is not a module name, expected one such as "cc.py"'
        )
        raise ScenarioError([(_KEY, text)])
    directory = str(path.resolve().parent)
    if directory not in sys.path:
        sys.path.append(directory)
    try:
        module = module_of(path.stem)
    except (Exception, SystemExit) as error:
        raise ScenarioError([(_KEY, f"{path} cannot be imported: {format_error(error)}")]) from error
    if Path(getattr(module, "__file__", None) or "").resolve() != path.resolve():
        raise ScenarioError([(_KEY, f'{path} cannot be imported: another module has the name "{path.stem}"')])
    controllers = {
        name: member
        for name, member in vars(module).items()
        if isinstance(member, type) and callable(getattr(member, "on_event", None))
    }
    if class_name not in controllers:
        text = unknown_name(class_name, controllers, "controller class")
        if isinstance(getattr(module, class_name, None), type):
            text = f'class "{class_name}" is not a controller, expected a method on_event'
        elif not controllers:
            text = f'no class "{class_name}", expected one with a method on_event'
        raise ScenarioError([(_KEY, f"{path}: {text}")])
    return controllers[class_name]


def import_path(kind: type) -> str | None:
    """Return ``module:Class`` for the import in another process; None if that is impossible."""
    module, name = kind.__module__, kind.__qualname__
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
