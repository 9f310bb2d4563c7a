"""Lint prose: scripts/prose [--update] [FILE|FOLDER...].

With files or folders, print every finding of each. Without them, print the number of findings of each file of the
repository, and the findings of files that have more than scripts/prose_lint/baseline.toml allows. ``--update`` lowers
the baseline to the present numbers, and follows files that moved. The exit status is 1 if a file has findings above its
allowance.
"""

from __future__ import annotations

import sys
from pathlib import Path

from prose_lint import baseline
from prose_lint.files import ROOT, checked_files, file_findings


def main(arguments: list[str]) -> int:
    """Run the command."""
    if {"-h", "--help"} & set(arguments):
        print(__doc__)
        return 0
    if unknown := [one for one in arguments if one.startswith("-") and one != "--update"]:
        print(f"error: {unknown[0]}: unknown option, expected --update", file=sys.stderr)
        return 2
    if paths := [Path(one) for one in arguments if not one.startswith("-")]:
        return print_findings(paths)
    counts = {name: len(file_findings(ROOT / name)) for name in checked_files()}
    allowed = baseline.allowances(list(counts))
    if "--update" in arguments:
        baseline.write({name: min(count, allowed[name]) for name, count in counts.items()})
    for name, count in counts.items():
        if count:
            print(f"{count:5} of {allowed[name]:5}  {name}")
    print(f"{sum(counts.values()):5} of {sum(allowed.values()):5}  in {len(counts)} files")
    above = baseline.above(counts, allowed)
    for name in above:
        print_findings([ROOT / name])
    return int(bool(above))


def print_findings(paths: list[Path]) -> int:
    """Print the findings of files; return 1 if there are any."""
    found = 0
    for path in paths:
        if not path.exists():
            print(f"error: {path}: no such file or folder", file=sys.stderr)
            return 2
        name = path.resolve()
        files = [ROOT / one for one in checked_files()] if path.is_dir() else [name]
        for file in files:
            if not file.is_relative_to(name):
                continue
            shown = file.relative_to(ROOT) if file.is_relative_to(ROOT) else path
            for finding in file_findings(file):
                print(f"{shown}:{finding}")
                found += 1
    return int(found > 0)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
