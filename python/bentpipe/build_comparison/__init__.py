"""Paired comparison of two builds with the same workload: ``bentpipe compare-builds``.

``build``: a build on the command line (installed bentpipe, engine, controller or store)
``result``: result of a comparison
``scenario_pairs``: a scenario in virtual time with two builds
``command_pairs``: a command with two builds over an emulated path
``markdown``: result as a sentence and as Markdown
"""
