"""``bentpipe compare-builds``: the same work by two builds, in pairs, and whether the second is worse.

``build`` (what is a build: an installed bentpipe, an engine, a controller, a store) and ``outcome`` (what came of two)
<- ``stores`` (a scenario in virtual time by two of them), ``programs`` (two real programs behind an access) and
``summary`` (what came of either, in Markdown).
"""
