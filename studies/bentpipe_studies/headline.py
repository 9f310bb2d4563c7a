"""First sentences of the page of a study: main result, share that agrees, main explanation of the rest."""

from __future__ import annotations

import re
from collections import Counter
from typing import TYPE_CHECKING

from bentpipe.metrics.verdicts import Check, Verdict
from bentpipe.report.headline import NO_INTERVAL, Headline, join_names

if TYPE_CHECKING:
    from bentpipe_studies.study import Findings

__all__ = ["build_headline", "term_definitions"]

_DEFINITIONS = {
    Verdict.AGREES.value: "the published value is inside the prediction interval, or all checks of the claim hold",
    Verdict.DIFFERS.value: "the published value is outside the prediction interval, or a check of the claim fails",
    Verdict.UNDECIDED.value: "not significant: an interval contains both outcomes or needs more seeds",
    Verdict.CALIBRATED.value: "agrees, but the value was used for fitting the model, so it is no evidence",
    Verdict.NOT_RUN.value: "the required runs are missing",
    "prediction interval": "95 % prediction interval of one further run, over seeds",
    "witness": "second measurement that shares no code with bentpipe",
}


def term_definitions(findings: Findings) -> dict[str, str]:
    """Return the definitions of the terms of the page."""
    interpretation = "one interpretation of what the publication leaves open; each is run and rated"
    return {**_DEFINITIONS, findings.interpretation_title: interpretation}


def build_headline(findings: Findings) -> Headline:
    """Return the headline: the main result and its assumption, then the numbers of verdicts.

    Without a main result the numbers of verdicts come first.
    """
    share, *tally = _count_verdicts(findings)
    main = findings.main_result
    sentence, before = (share, []) if main is None else (main.sentence, [main.assumption, share])
    return Headline(sentence, " ".join(filter(None, [*before, *tally])))


def _count_verdicts(findings: Findings) -> list[str]:
    """Return the sentences about all verdicts; the first has the share that agrees."""
    if not findings.items:
        return ["The selected parts have no published value with a verdict."]
    decided = findings.decided()
    if not decided.items:
        return [f"No verdict yet, because runs are missing: {_count_items(findings)}."]
    counts = Counter(item.verdict for item in decided.items)
    agree, total = counts[Verdict.AGREES], len(decided.items)
    share = (
        f"{agree} of {total} {'agrees' if agree == 1 else 'agree'}" if agree else f"None of {total} agrees"
    )
    if agree == total:
        share = f"All {total} agree" if total > 1 else "The only one agrees"
    others = [
        f"{counts[verdict]} {'differ' if verdict is Verdict.DIFFERS and counts[verdict] > 1 else verdict.value}"
        for verdict in Verdict
        if verdict is not Verdict.AGREES and counts[verdict]
    ]
    return [
        f"{share} with the publication{f'; {join_names(others)}' if others else ''}.",
        f"Rated: {_count_items(decided)}.",
        _describe_missing(findings, len(findings.items) - total),
        _explain_differences(decided),
        _describe_single_seeds(decided),
    ]


def _describe_missing(findings: Findings, missing: int) -> str:
    """Return the number of verdicts whose runs are missing as text; empty without any."""
    if not missing:
        return ""
    verb = "needs" if missing == 1 else "need"
    needed = "runs of other parts" if findings.needs_other_parts else "runs that are missing"
    return f"{missing} of {len(findings.items)} verdicts {verb} {needed}."


def _count_items(findings: Findings) -> str:
    """Return the number of different rows and claims as text, and of the verdicts on them if these are more."""
    parts = []
    for found, one, many in (
        (findings.rows, "published row", "published rows"),
        (findings.claims, "claim", "claims"),
    ):
        if number := len({item.id for item in found}):
            parts.append(f"{number} {one if number == 1 else many}")
    different = len({item.id for item in findings.rows}) + len({item.id for item in findings.claims})
    interpretations = len({item.interpretation for item in findings.items} - {""})
    if different == len(findings.items):
        return join_names(parts)
    return (
        f"{join_names(parts)} with {len(findings.items)} verdicts, under {interpretations} interpretations "
        f"({findings.interpretation_title})"
    )


def _explain_differences(findings: Findings) -> str:
    """Return the explanation that covers most of what does not agree, as text."""
    differing = [item for item in findings.items if item.verdict in (Verdict.DIFFERS, Verdict.UNDECIDED)]
    explanations = Counter(item.explanation for item in differing if item.explanation)
    if not differing:
        return ""
    if not explanations:
        return (
            "None of the other items is explained."
            if len(differing) > 1
            else "The other item is not explained."
        )
    common, most = explanations.most_common(1)[0]
    first = re.split(r"(?<=[^.\s]\.) (?=[A-Z])", common, maxsplit=1)[0]
    explained = explanations.total()
    if len(differing) == 1:
        return f"Explanation of the other item: {first}"
    count = "All" if explained == len(differing) else str(explained)
    suffix = f", {most} of them alike" if most < explained else " so"
    verb = "is" if explained == 1 else "are"
    return f"{count} of the {len(differing)} items that do not agree {verb} explained{suffix}: {first}"


def _describe_single_seeds(findings: Findings) -> str:
    """Return the number of values that rest on one seed, as text; empty when there are none."""
    values = [quantity.values for row in findings.rows for quantity in row.quantities]
    values += [one.values for claim in findings.claims for one in claim.checks if isinstance(one, Check)]
    single = sum(len(found) == 1 for found in values)
    if not single:
        return ""
    which = "They rest" if single == len(values) else f"{single} of {len(values)} numbers rest"
    return f"{which} on one seed each; {NO_INTERVAL}."
