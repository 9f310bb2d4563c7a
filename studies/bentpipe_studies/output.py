"""Findings of a study as text and tables for people, and as JSON."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from bentpipe.metrics.format import CommandOutput, TextTable, format_mean
from bentpipe.metrics.intervals import ConfidenceInterval, format_significant, round_significant
from bentpipe.metrics.verdicts import Check, Claim, Fact, Quantity, Verdict
from bentpipe_studies.study import Findings, Row

if TYPE_CHECKING:
    import polars as pl

__all__ = [
    "StudyOutput",
    "claim_rows",
    "differences",
    "format_findings",
    "interval_columns",
    "row_tables",
    "to_json",
    "verdict_rows",
]

ONE_MORE = "prediction interval"
"""Title of the range in which one more run would lie."""

_TEXTS = ("id", "what", "interpretation", "part")
_NUMBERS = ("published", "measured", "low", "high", "expected_low", "expected_high")


@dataclass(frozen=True, repr=False)
class StudyOutput(CommandOutput):
    """Output of a study, with its verdicts."""

    verdicts: tuple[Mapping[str, Any], ...] = ()
    """One row for each number of a published row, and for each check of a claim."""

    def __repr__(self) -> str:
        """Return the number of verdicts."""
        return f"<bentpipe study: {len(self.verdicts)} verdicts{'' if self.good else ', some runs failed'}>"

    def _repr_html_(self) -> str:
        return self.frame()._repr_html_()

    def frame(self) -> pl.DataFrame:
        """Return the verdicts, one row for each number or check.

        Returns:
            ``id`` and ``what`` name the published row or claim, ``part`` the part that is judged. ``reading`` is the
            interpretation of an ambiguous publication. ``published`` is null for a check. ``measured`` has the bounds
            of its interval (``low, high``). ``expected_low`` and ``expected_high`` are the range of one more run.
            ``needed`` is the condition of a check, ``verdict`` its verdict, and ``together`` the verdict on the whole
            row or claim.
        """
        import polars as pl

        schema = {
            **dict.fromkeys(_TEXTS, pl.String), **dict.fromkeys(_NUMBERS, pl.Float64),
            **dict.fromkeys(("needed", "verdict", "together"), pl.String),
        }  # fmt: skip
        return pl.DataFrame(list(self.verdicts), schema=schema)


def _measured(quantity: Quantity) -> str:
    found = quantity.interval
    if found is None:
        return "–"
    return format_mean(found)


def _expected(quantity: Quantity) -> str:
    found = quantity.expected
    return "–" if found is None else f"{format_significant(found[0])} … {format_significant(found[1])}"


def _agreeing_names(row: Row) -> str:
    """Return the names of the numbers of a row that agree or are calibrated."""
    verdicts = (Verdict.AGREES, Verdict.CALIBRATED)
    named = {verdict: [one.name for one in row.quantities if one.verdict is verdict] for verdict in verdicts}
    return "; ".join(f"{', '.join(names)} {verdict.value}" for verdict, names in named.items() if names)


def row_tables(findings: Findings) -> list[list[dict[str, Any]]]:
    """Return published and measured values with verdicts, a line for each row and interpretation.

    Rows of the same quantities form a table.
    """
    groups: dict[tuple[str, ...], list[Row]] = {}
    for row in findings.rows:
        groups.setdefault(tuple(quantity.name for quantity in row.quantities), []).append(row)
    return [_lines(findings, group) for group in groups.values()]


def _lines(findings: Findings, rows: Sequence[Row]) -> list[dict[str, Any]]:
    lines: list[dict[str, Any]] = []
    has_tolerance = any(quantity.tolerance for row in rows for quantity in row.quantities)
    for row in rows:
        part = (
            f" ({agreeing})" if row.verdict is Verdict.DIFFERS and (agreeing := _agreeing_names(row)) else ""
        )
        line: dict[str, Any] = {
            "row": row.label,
            findings.interpretation_title: row.interpretation,
            "verdict": row.verdict.value + part,
        }
        for quantity in row.quantities:
            prefix = f"{quantity.name}, " if quantity.name else ""
            line[f"{prefix}published"] = f"{quantity.published:g}"
            line[f"{prefix}measured"] = _measured(quantity)
            line[f"{prefix}{'range' if has_tolerance else ONE_MORE}"] = _expected(quantity)
        if has_tolerance:
            texts = {one.tolerance.text if one.tolerance else ONE_MORE for one in row.quantities}
            line["type of range"] = ", ".join(sorted(texts))
        lines.append(line)
    return lines


def _claim_verdict(claim: Claim) -> str:
    if claim.verdict is not Verdict.DIFFERS:
        return claim.verdict.value
    agreeing = sum(check.verdict is Verdict.AGREES for check in claim.checks)
    return f"{claim.verdict.value} ({agreeing} of {len(claim.checks)} hold)"


def claim_rows(findings: Findings) -> list[dict[str, Any]]:
    """Return one line for each check of a claim; the first line has the verdict on the claim."""
    lines = []
    for claim in findings.claims:
        for index, check in enumerate(claim.checks):
            lines.append(
                {
                    "claim": claim.id if index == 0 else "",
                    findings.interpretation_title: claim.interpretation if index == 0 else "",
                    "verdict": _claim_verdict(claim) if index == 0 else "",
                    "check": check.text,
                    "measured": check.measured,
                    "needed": check.needed,
                    "": "" if check.verdict is Verdict.AGREES else check.verdict.value,
                }
            )
    return lines


def differences(findings: Findings) -> list[tuple[str, str]]:
    """Return (id, explanation) of what does not agree, once for all interpretations."""
    found: dict[str, str] = {}
    items: list[Row | Claim] = [*findings.rows, *findings.claims]
    for item in items:
        if item.verdict in (Verdict.DIFFERS, Verdict.UNDECIDED) and item.explanation:
            found.setdefault(item.id, item.explanation)
    return list(found.items())


def format_findings(title: str, findings: Findings) -> list[str | TextTable]:
    """Return all findings as lines and tables."""
    output: list[str | TextTable] = [title]
    for table in findings.tables:
        output += ["", table]
    if findings.rows:
        for number, lines in enumerate(row_tables(findings)):
            columns = [
                {k: v for k, v in line.items() if ONE_MORE not in k and "range" not in k} for line in lines
            ]
            output += ["", TextTable(findings.rows_title + (" (more)" if number else ""), columns)]
    if findings.claims:
        output += ["", TextTable("Claims and criteria", claim_rows(findings))]
        for claim in {claim.id: claim for claim in findings.claims}.values():
            output.append(f"{claim.id}: {claim.text}.\n    Criterion: {claim.criterion}.")
    reasons = differences(findings)
    if reasons:
        output.append("\nDifferences explained")
        output += [f"  {name}: {explanation}" for name, explanation in reasons]
    return [*output, f"\n{findings.tolerance}", *findings.notes]


def _quantity(quantity: Quantity) -> dict[str, Any]:
    found, expected = quantity.interval, quantity.expected
    return {
        "name": quantity.name,
        "published": quantity.published,
        "measured": round_significant(found.estimate) if found else None,
        "low": round_significant(found.low) if found else None,
        "high": round_significant(found.high) if found else None,
        "one_more_run": [round_significant(bound) for bound in expected] if expected else None,
        "seeds": len(quantity.values),
        "verdict": quantity.verdict.value,
    }


def _check(check: Check | Fact) -> dict[str, Any]:
    found = check.interval
    data = {
        "check": check.text,
        "measured": round_significant(found.estimate) if found else None,
        "low": round_significant(found.low) if found else None,
        "high": round_significant(found.high) if found else None,
        "needed": check.needed.replace("≥", ">=").replace("≤", "<="),
        "verdict": check.verdict.value,
    }
    return data | {"found": check.measured} if isinstance(check, Fact) else data


def to_json(findings: Findings) -> dict[str, Any]:
    """Return all findings as JSON data."""
    main = findings.main_result
    return {
        "main_result": None if main is None else {"sentence": main.sentence, "assumption": main.assumption},
        "rows": [
            {
                "id": row.id,
                "row": row.label,
                "where": row.source,
                findings.interpretation_title: row.interpretation,
                "quantities": [_quantity(quantity) for quantity in row.quantities],
                "verdict": row.verdict.value,
                "why": row.explanation if row.verdict is not Verdict.AGREES else "",
            }
            for row in findings.rows
        ],
        "claims": [
            {
                "id": claim.id,
                "claim": claim.text,
                "criterion": claim.criterion,
                findings.interpretation_title: claim.interpretation,
                "checks": [_check(check) for check in claim.checks],
                "verdict": claim.verdict.value,
                "why": claim.explanation if claim.verdict is not Verdict.AGREES else "",
            }
            for claim in findings.claims
        ],
        "tables": [{"title": table.title, "rows": list(table.rows)} for table in findings.tables],
        "tolerance": findings.tolerance,
        "notes": list(findings.notes),
    }


def verdict_rows(findings: Findings) -> tuple[Mapping[str, Any], ...]:
    """Return the rows of :meth:`StudyOutput.frame`; a missing key becomes null."""
    found: list[Mapping[str, Any]] = []
    for row in findings.rows:
        whole = {
            "id": row.id,
            "what": row.label,
            "interpretation": row.interpretation,
            "together": row.verdict.value,
        }
        for quantity in row.quantities:
            expected = quantity.expected or (None, None)
            found.append(
                {**whole, "part": quantity.name, "published": quantity.published, **interval_columns(quantity.interval),
                 "expected_low": expected[0], "expected_high": expected[1], "verdict": quantity.verdict.value}
            )  # fmt: skip
    for claim in findings.claims:
        whole = {
            "id": claim.id,
            "what": claim.text,
            "interpretation": claim.interpretation,
            "together": claim.verdict.value,
        }
        found += [
            {**whole, "part": check.text, **interval_columns(check.interval), "needed": check.needed,
             "verdict": check.verdict.value}
            for check in claim.checks
        ]  # fmt: skip
    return tuple(found)


def interval_columns(interval: ConfidenceInterval | None, factor: float = 1.0) -> dict[str, float | None]:
    """Return a mean with its interval as columns of :meth:`StudyOutput.frame`, times ``factor``."""
    if interval is None:
        return {"measured": None, "low": None, "high": None}
    low, high = (None if one is None else one * factor for one in (interval.low, interval.high))
    return {"measured": interval.estimate * factor, "low": low, "high": high}
