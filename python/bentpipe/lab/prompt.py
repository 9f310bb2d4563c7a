"""An interactive shell behind an access has the access in its prompt: ``(geo-konnect) ~ $``.

Each shell reads the user's own settings first, and then a line of ours, from a folder that goes with the session.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["prompted"]


def prompted(
    shell: str, access: str, folder: Path, environment: Mapping[str, str]
) -> tuple[list[str], dict[str, str], dict[str, str]]:
    """The words that start ``shell`` with ``access`` in its prompt; what its environment has beside
    ``environment``; and the files that it reads, by their names in ``folder``."""
    name = Path(shell).name
    shown = "".join(one for one in Path(access).stem if one.isalnum() or one in "._-+") or "access"
    if name == "bash":
        own = f'[ -f ~/.bashrc ] && . ~/.bashrc\nPS1="({shown}) $PS1"\n'
        return [shell, "--rcfile", str(folder / "bashrc"), "-i"], {}, {"bashrc": own}
    if name == "zsh":
        home = environment.get("ZDOTDIR") or environment.get("HOME") or str(Path.home())
        own = (
            f'ZDOTDIR={_quoted(home)}\n[ -f "$ZDOTDIR/.zshrc" ] && . "$ZDOTDIR/.zshrc"\n'
            f'PROMPT="({shown}) $PROMPT"\n'
        )
        first = f"[ -f {_quoted(home)}/.zshenv ] && . {_quoted(home)}/.zshenv\n"
        return [shell, "-i"], {"ZDOTDIR": str(folder)}, {".zshenv": first, ".zshrc": own}
    if name == "fish":
        own = (
            "functions -q fish_prompt; and functions -c fish_prompt bentpipe_prompt; "
            f"function fish_prompt; echo -n '({shown}) '; "
            "functions -q bentpipe_prompt; and bentpipe_prompt; end"
        )
        return [shell, "-C", own], {}, {}
    return [shell], {"PS1": f"({shown}) {environment.get('PS1', '$ ')}"}, {}


def _quoted(text: str) -> str:
    return "'" + text.replace("'", "'\\''") + "'"
