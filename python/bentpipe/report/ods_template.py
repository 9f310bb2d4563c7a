"""Spreadsheet template of the user, filled with the tables of a store.

A sheet with the name of a table is filled; every other sheet stays unchanged. Names are ``metrics``, ``cells``,
``cwnd``, ``goodput``, ``goodput since start`` or that of a raw table. ``flows``, ``flow_summary`` and the like have all
runs, with the cell in the first columns; ``RUN.TABLE`` has one run. If the first row of a sheet has names of the
table's columns, only those are written. A heading without such a column stays over an empty column. Otherwise, all
columns are written with their names. Everything below the first row is replaced. Charts, drawings and formats stay in
place: only the rows of filled sheets change.

Hence a chart in the template must refer to the largest number of rows; empty rows are not drawn.
"""

from __future__ import annotations

import zipfile
from collections.abc import Iterator, Sequence
from io import BytesIO
from pathlib import Path
from typing import Protocol
from xml.etree import ElementTree

import polars as pl

from bentpipe.store.files import StoreError

_TABLE = "urn:oasis:names:tc:opendocument:xmlns:table:1.0"
_OFFICE = "urn:oasis:names:tc:opendocument:xmlns:office:1.0"
_TEXT = "urn:oasis:names:tc:opendocument:xmlns:text:1.0"
_DRAW = "urn:oasis:names:tc:opendocument:xmlns:drawing:1.0"

MAX_COLUMNS = 1024
"""Largest number of columns read in the first row of a sheet."""


class TemplateError(StoreError):
    """Template that is not a spreadsheet or has no sheet with the name of a table."""


class Source(Protocol):
    """Source of tables by name."""

    def get(self, name: str) -> pl.DataFrame | None:
        """Return the table, or ``None`` for an unknown name."""
        ...

    def names(self) -> list[str]:
        """Return all names, for a message."""
        ...


def fill(template: Path, out: Path, source: Source) -> Path:
    """Fill the sheets of a copy of ``template`` and write it to ``out``.

    Raises:
        TemplateError: the template is invalid; the message has the expected names.
    """
    try:
        with zipfile.ZipFile(template) as old:
            entries = [(info, old.read(info)) for info in old.infolist()]
    except (OSError, zipfile.BadZipFile) as error:
        raise TemplateError(f"{template} cannot be read as an ODS spreadsheet: {error}") from None
    content = next((data for info, data in entries if info.filename == "content.xml"), None)
    if content is None:
        raise TemplateError(f"{template} is not an ODS spreadsheet: it has no content.xml")
    filled, names = _fill_content(content, source)
    if not names:
        raise TemplateError(
            f"{template}: no sheet has the name of a table, expected one of: {', '.join(source.names())}"
        )
    out.parent.mkdir(parents=True, exist_ok=True)
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as new:
        for info, data in entries:
            # Otherwise the stored image of the old chart would hide the new one.
            if info.filename.startswith("ObjectReplacements/") and not info.is_dir():
                continue
            if info.filename == "META-INF/manifest.xml":
                data = _drop_replacements(data)  # noqa: PLW2901
            new.writestr(info, filled if info.filename == "content.xml" else data)
    return out


def _namespaces(xml: bytes) -> dict[str, str]:
    found = {}
    for _, (prefix, uri) in ElementTree.iterparse(BytesIO(xml), events=["start-ns"]):
        found[prefix] = uri
    return found


def _serialise(root: ElementTree.Element, namespaces: dict[str, str]) -> bytes:
    """Return XML with all namespaces of the original, because formulas refer to them in text (``of:=SUM(...)``)."""
    for prefix, uri in namespaces.items():
        ElementTree.register_namespace(prefix, uri)
    text = ElementTree.tostring(root, encoding="unicode")
    head, rest = text[: text.index(">")], text[text.index(">") :]
    missing = [f' xmlns:{p}="{uri}"' for p, uri in namespaces.items() if p and f"xmlns:{p}=" not in head]
    return ('<?xml version="1.0" encoding="UTF-8"?>\n' + head + "".join(missing) + rest).encode()


def _drop_replacements(manifest: bytes) -> bytes:
    root = ElementTree.fromstring(manifest)
    space = root.tag.partition("}")[0] + "}"
    for entry in list(root):
        if str(entry.get(f"{space}full-path", "")).startswith("ObjectReplacements/"):
            root.remove(entry)
    return _serialise(root, _namespaces(manifest))


def _fill_content(content: bytes, source: Source) -> tuple[bytes, list[str]]:
    root = ElementTree.fromstring(content)
    names = []
    for sheet in root.iter(f"{{{_TABLE}}}table"):
        name = sheet.get(f"{{{_TABLE}}}name", "")
        frame = source.get(name)
        if frame is not None:
            _fill_sheet(sheet, frame)
            names.append(name)
    for frame_element in root.iter(f"{{{_DRAW}}}frame"):
        for image in frame_element.findall(f"{{{_DRAW}}}image"):
            href = image.get("{http://www.w3.org/1999/xlink}href", "")
            if "ObjectReplacements/" in href:
                frame_element.remove(image)
    return _serialise(root, _namespaces(content)), names


def _rows(sheet: ElementTree.Element) -> Iterator[tuple[ElementTree.Element, ElementTree.Element]]:
    """Yield rows with their parents: the sheet or a group in it."""
    row = f"{{{_TABLE}}}table-row"
    groups = {f"{{{_TABLE}}}{name}" for name in ("table-row-group", "table-header-rows", "table-rows")}
    for child in list(sheet):
        if child.tag == row:
            yield sheet, child
        elif child.tag in groups:
            yield from _rows(child)


def _repetitions(element: ElementTree.Element, kind: str) -> int:
    return int(element.get(f"{{{_TABLE}}}number-{kind}-repeated", "1"))


def _headings(row: ElementTree.Element) -> list[str]:
    """Return the text of the first row's cells, up to the last with text."""
    texts: list[str] = []
    for cell in row:
        if cell.tag not in (f"{{{_TABLE}}}table-cell", f"{{{_TABLE}}}covered-table-cell"):
            continue
        paragraphs = cell.findall(f"{{{_TEXT}}}p")
        text = "\n".join("".join(paragraph.itertext()) for paragraph in paragraphs).strip()
        texts += [text] * min(_repetitions(cell, "columns"), MAX_COLUMNS - len(texts))
    while texts and not texts[-1]:
        texts.pop()
    return texts


def _drawings(rows: Sequence[ElementTree.Element]) -> dict[tuple[int, int], list[ElementTree.Element]]:
    """Return the drawings anchored to cells, by row and column (from 0)."""
    drawings: dict[tuple[int, int], list[ElementTree.Element]] = {}
    y = 0
    for row in rows:
        x = 0
        for cell in row:
            drawn = [child for child in cell if child.tag.startswith(f"{{{_DRAW}}}")]
            if drawn:
                drawings[y, x] = drawn
            x += _repetitions(cell, "columns")
        y += _repetitions(row, "rows")
    return drawings


def _fill_sheet(sheet: ElementTree.Element, frame: pl.DataFrame) -> None:
    placed = list(_rows(sheet))
    rows = [row for _, row in placed]
    headings = _headings(rows[0]) if rows else []
    known = [heading if heading in frame.columns else None for heading in headings]
    columns: list[str | None] = known if any(known) else list(frame.columns)
    drawings = _drawings(rows)
    for parent, row in placed:
        parent.remove(row)
    lines: list[list[object]] = [[*headings] if any(known) else [*frame.columns]]
    values = frame.select([column for column in columns if column is not None])
    slots = [index for index, column in enumerate(columns) if column is not None]
    for values_row in values.rows():
        line: list[object] = [None] * len(columns)
        for slot, value in zip(slots, values_row, strict=True):
            line[slot] = value
        lines.append(line)
    last = max((y for y, _ in drawings), default=-1)
    lines += [[] for _ in range(last + 1 - len(lines))]
    for y, line in enumerate(lines):
        widest = max((x for at, x in drawings if at == y), default=-1) if y <= last else -1
        element = ElementTree.SubElement(sheet, f"{{{_TABLE}}}table-row")
        for x in range(max(len(line), widest + 1)):
            cell = _cell(line[x] if x < len(line) else None)
            cell.extend(drawings.get((y, x), []))
            element.append(cell)
        if not len(element):
            ElementTree.SubElement(element, f"{{{_TABLE}}}table-cell")
    # Elements after the rows of a sheet (named ranges, conditional formats) must stay after them.
    after = [child for child in sheet if child.tag not in _BEFORE and child.tag != f"{{{_TABLE}}}table-row"]
    for child in after:
        sheet.remove(child)
        sheet.append(child)


_BEFORE = {
    f"{{{_TABLE}}}{name}"
    for name in ("title", "desc", "table-source", "dde-source", "scenario", "shapes", "table-column",
                 "table-columns", "table-column-group", "table-header-columns", "table-rows", "table-row-group",
                 "table-header-rows")
} | {f"{{{_OFFICE}}}forms"}  # fmt: skip


def cell_text(value: object) -> tuple[str, str]:
    """Return ``office:value-type`` of a value and its text; an empty type for an empty cell."""
    if value is None or (isinstance(value, float) and value != value):
        return "", ""
    if isinstance(value, bool):
        return "boolean", str(value).lower()
    if isinstance(value, int | float):
        return "float", f"{value:.9g}" if isinstance(value, float) else str(value)
    return "string", str(value)


def _cell(value: object) -> ElementTree.Element:
    cell = ElementTree.Element(f"{{{_TABLE}}}table-cell")
    kind, text = cell_text(value)
    if kind:
        cell.set(f"{{{_OFFICE}}}value-type", kind)
        if kind == "float":
            cell.set(f"{{{_OFFICE}}}value", text)
        elif kind == "boolean":
            cell.set(f"{{{_OFFICE}}}boolean-value", text)
        paragraph = ElementTree.SubElement(cell, f"{{{_TEXT}}}p")
        paragraph.text = text
    return cell
