"""One figure: a chart with a title and a caption, for a page or for a file."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bentpipe.figures.style import config
from bentpipe.store.files import write_whole


@dataclass(frozen=True)
class Figure:
    """``key`` names it in files and addresses; ``caption`` says what is drawn, ``note`` which cells are shown."""

    key: str
    title: str
    caption: str
    chart: Any
    rows: int
    note: str = ""

    def spec(self) -> dict[str, Any]:
        """The Vega-Lite specification, with its data and without colours of a page (``config``)."""
        spec: dict[str, Any] = self.chart.to_dict(validate=False)
        spec.pop("config", None)
        return spec

    def whole(self) -> dict[str, Any]:
        """The specification as it stands alone, on white: with the title, the note, colours and fonts."""
        spec = self.spec()
        if "title" in spec:
            schema = spec.pop("$schema")
            datasets = spec.pop("datasets", {})  # only looked for at the top
            spec = {"$schema": schema, "vconcat": [spec], "datasets": datasets}
        spec["title"] = {
            "text": self.title,
            "fontSize": 15,
            "subtitle": self.note,
            "subtitleFontSize": 11,
            "offset": 12,
        }
        spec["config"] = config() | {"background": "white"}
        return spec

    def write(self, path: Path) -> Path:
        """Write it as vectors: ``.pdf`` or ``.svg`` by the suffix. Raises ValueError for another suffix."""
        import vl_convert

        spec = self.whole()
        version = ".".join(spec["$schema"].rsplit("/v", 1)[-1].removesuffix(".json").split(".")[:2])
        if path.suffix == ".pdf":
            write_whole(path, vl_convert.vegalite_to_pdf(spec, vl_version=version))
        elif path.suffix == ".svg":
            write_whole(path, vl_convert.vegalite_to_svg(spec, vl_version=version).encode())
        else:
            raise ValueError(f"{path.name}: a figure is written as .pdf or .svg")
        return path
