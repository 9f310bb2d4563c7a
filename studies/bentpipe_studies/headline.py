"""How the page of a study begins: how much of what was published agrees, and what explains the rest."""

from __future__ import annotations

import re
from collections import Counter
from typing import TYPE_CHECKING

from bentpipe.report.headline import NO_INTERVAL, Headline, join_names
from bentpipe_studies.verdicts import Check, Verdict

if TYPE_CHECKING:
    from bentpipe_studies.study import Findings, Row
    from bentpipe_studies.verdicts import Claim

__all__ = ["build_headline", "words"]

_WORDS = {
    Verdict.AGREES.value: "the published number lies where one more run would, or all checks of the claim hold",
    Verdict.DIFFERS.value: "the published number lies elsewhere, or a check of the claim fails",
    Verdict.UNDECIDED.value: "the seeds cannot tell: an interval holds both answers, or cannot be had",
    Verdict.CALIBRATED.value: "it would agree, but had a part in fitting the model: no evidence for it",
    Verdict.NOT_RUN.value: "what it needs has not been run",
    "one more run": "where one more run would lie with 95 % (prediction interval over seeds)",
    "witness": "a second measurement that shares no code with bentpipe",
}


def words(findings: Findings) -> dict[str, str]:
    """What words of the page mean."""
    interpretation = (
        "a reading: one of the ways to take what the publication leaves open; each is run and judged"
    )
    return {**_WORDS, findings.interpretation_title: interpretation}


def build_headline(findings: Findings) -> Headline:
    """Of the rows and claims, in each reading."""
    items = _items(findings)
    if not items:
        return Headline("Nothing of the publication was asked for that has a verdict.")
    counts = Counter(item.verdict for item in items)
    agree, total = counts[Verdict.AGREES], len(items)
    if counts[Verdict.NOT_RUN] == total:
        return Headline(f"Not yet run, so without a verdict: {_what(findings)}.")
    said = f"{agree} of {total} {'agrees' if agree == 1 else 'agree'}" if agree else f"None of {total} agrees"
    if agree == total:
        said = f"All {total} agree" if total > 1 else "The only one agrees"
    others = [
        f"{counts[verdict]} {'differ' if verdict is Verdict.DIFFERS and counts[verdict] > 1 else verdict.value}"
        for verdict in Verdict
        if verdict is not Verdict.AGREES and counts[verdict]
    ]
    sentence = f"{said} with what was published{f'; {join_names(others)}' if others else ''}."
    return Headline(
        sentence, " ".join(filter(None, [f"Judged: {_what(findings)}.", _why(findings), _alone(findings)]))
    )


def _items(findings: Findings) -> list[Row | Claim]:
    return [*findings.rows, *findings.claims]


def _what(findings: Findings) -> str:
    """How many there are of which, and in how many readings."""
    parts = []
    for found, one, many in (
        (findings.rows, "printed row", "printed rows"),
        (findings.claims, "claim", "claims"),
    ):
        if found:
            parts.append(f"{len(found)} {one if len(found) == 1 else many}")
    interpretations = len({item.interpretation for item in _items(findings)})
    return join_names(parts) + (f", in {interpretations} readings" if interpretations > 1 else "")


def _why(findings: Findings) -> str:
    """What explains those that do not agree: the reason that explains most of them."""
    others = [item for item in _items(findings) if item.verdict in (Verdict.DIFFERS, Verdict.UNDECIDED)]
    whys = Counter(item.explanation for item in others if item.explanation)
    if not others:
        return ""
    if not whys:
        return "None of the others is explained." if len(others) > 1 else "The other one is not explained."
    explanation, most = whys.most_common(1)[0]
    first = re.split(r"(?<=[^.\s]\.) (?=[A-Z])", explanation, maxsplit=1)[0]
    explained = whys.total()
    if len(others) == 1:
        return f"The other one is explained so: {first}"
    which = "all" if explained == len(others) else str(explained)
    so = f", {most} of them so" if most < explained else " so"
    return f"Of the {len(others)} that do not agree, {which} {'is' if explained == 1 else 'are'} explained{so}: {first}"


def _alone(findings: Findings) -> str:
    """Whether numbers rest on one seed."""
    values = [quantity.values for row in findings.rows for quantity in row.quantities]
    values += [one.values for claim in findings.claims for one in claim.checks if isinstance(one, Check)]
    single = sum(len(found) == 1 for found in values)
    if not single:
        return ""
    which = "They rest" if single == len(values) else f"{single} of {len(values)} numbers rest"
    return f"{which} on one seed each; {NO_INTERVAL}."
