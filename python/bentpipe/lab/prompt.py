"""Prompt of an interactive shell with the name of its access: ``(geo-konnect) ~ $``.

Each shell reads the user's settings first, and then a line from a directory that is removed with the lab.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["build_prompt"]


def build_prompt(
    shell: str, access: str, folder: Path, environment: Mapping[str, str]
) -> tuple[list[str], dict[str, str], dict[str, str]]:
    """Return how to start ``shell`` with ``access`` in its prompt.

    Args:
        shell: path of the shell.
        access: name of the access.
        folder: directory for the start-up files of the shell.
        environment: environment of the shell.

    Returns:
        The command, further environment variables, and the start-up files by their names in ``folder``.
    """
    name = Path(shell).name
    label = (
        "".join(character for character in Path(access).stem if character.isalnum() or character in "._-+")
        or "access"
    )
    if name == "bash":
        startup = f'[ -f ~/.bashrc ] && . ~/.bashrc\nPS1="({label}) $PS1"\n'
        return [shell, "--rcfile", str(folder / "bashrc"), "-i"], {}, {"bashrc": startup}
    if name == "zsh":
        home = environment.get("ZDOTDIR") or environment.get("HOME") or str(Path.home())
        startup = (
            f'ZDOTDIR={_quote(home)}\n[ -f "$ZDOTDIR/.zshrc" ] && . "$ZDOTDIR/.zshrc"\n'
            f'PROMPT="({label}) $PROMPT"\n'
        )
        first_startup = f"[ -f {_quote(home)}/.zshenv ] && . {_quote(home)}/.zshenv\n"
        return [shell, "-i"], {"ZDOTDIR": str(folder)}, {".zshenv": first_startup, ".zshrc": startup}
    if name == "fish":
        startup = (
            "functions -q fish_prompt; and functions -c fish_prompt bentpipe_prompt; "
            f"function fish_prompt; echo -n '({label}) '; "
            "functions -q bentpipe_prompt; and bentpipe_prompt; end"
        )
        return [shell, "-C", startup], {}, {}
    return [shell], {"PS1": f"({label}) {environment.get('PS1', '$ ')}"}, {}


def _quote(text: str) -> str:
    return "'" + text.replace("'", "'\\''") + "'"
