"""python -m documents ROOT OUT: the documents of a checkout as a site in OUT/site, which needs no network.

Run by `make docs`, in an environment of its own (requirements/docs.txt).
"""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

from documents import api, checking, gallery, offline, staging


def main() -> None:
    """Makes the site, and ends with status 1 where a link of it is broken."""
    root, out = (Path(word).absolute() for word in sys.argv[1:])
    pages = out / "pages"
    shutil.rmtree(pages, ignore_errors=True)
    shutil.rmtree(out / "site", ignore_errors=True)
    try:
        staging.stage(root, pages)
        gallery.make(root, pages, out / "runs")
        (pages / "docs/api.md").write_text(api.page(root / "python/bentpipe"), encoding="utf-8")
        config = staging.navigation(
            (root / "docs/zensical.toml").read_text(encoding="utf-8"), staging.pages(root)
        )
    except staging.DocumentsError as error:
        sys.exit(f"documents: {error}")
    for name in ("docs/site.css", "docs/site.js"):
        shutil.copyfile(root / name, pages / name)
    (out / "zensical.toml").write_text(config, encoding="utf-8")
    for name in ("python", "scripts"):
        link = out / name
        link.unlink(missing_ok=True)
        link.symlink_to(root / name)
    built = subprocess.run(
        [Path(sys.executable).with_name("zensical"), "build", "--clean"], cwd=out, check=False
    )
    if built.returncode:
        sys.exit(
            "documents: zensical could not build them; what it says of pages is about their copies in "
            f"{pages}"
        )
    offline.keep(out / "site")
    wrong = checking.problems(out / "site")
    if wrong:
        sys.exit("\n".join([*wrong, f"broken links of the documents: {len(wrong)}"]))
    print(f"file://{out}/site/index.html")


if __name__ == "__main__":
    main()
