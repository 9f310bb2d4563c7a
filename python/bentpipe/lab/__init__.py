"""Everything in real time. A lab is a path, what splits TCP on it, and processes at its ends; ``bentpipe-rt`` runs it.

``executable`` (where that is), ``wire`` (what it is told: plans in types, and as JSON), ``labplan`` (a lab's plan,
checked before it leaves), ``process`` (``bentpipe-rt lab``, from start to end), ``kernel`` (what Linux's TCP can be
told), ``needs`` (what a machine must have for a lab), ``series`` (what a lab recorded, as tables), ``told`` (what calls
tell at their end, likewise), ``ports`` (one that is free) and ``crowd`` (simulated users beside a real command) <-
``access`` (from a preset or a scenario to a lab's path), ``checks`` (what was measured of it, kept), ``prompt`` (its
name in a shell's), ``changing`` (that path, while it is used), ``watching`` (the same, look by look) <- ``shell``
(any command), ``recorded`` (what it has kept), ``once`` (one that is timed), ``compare`` (one behind several
accesses), ``perf`` and ``calls`` (sockets), ``measured`` and ``kept_calls`` (what ``perf`` has kept), ``bundles``
(a bundle node on them), ``emu`` (the runs of a plan), ``browser`` (page loads in Chromium).
"""
