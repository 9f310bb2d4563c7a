"""Build the documents of a checkout as an offline site in OUT/site: python -m documents ROOT OUT.

`make docs` runs it in a virtual environment with requirements/docs.txt.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

from documents import api, checking, gallery, offline, staging


def main() -> None:
    """Build the site; exit with status 1 if a link is broken."""
    root, out = (Path(word).absolute() for word in sys.argv[1:])
    pages = out / "pages"
    shutil.rmtree(pages, ignore_errors=True)
    shutil.rmtree(out / "site", ignore_errors=True)
    try:
        staging.stage(root, pages)
        gallery.write(root, pages, out / "runs")
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
        sys.exit(f"documents: zensical failed; its messages name copies of the pages in {pages}")
    offline.replace_links(out / "site")
    errors = checking.check_site(out / "site")
    if errors:
        sys.exit("\n".join([*errors, f"broken links of the documents: {len(errors)}"]))
    print(f"file://{out}/site/index.html")


if __name__ == "__main__":
    main()
