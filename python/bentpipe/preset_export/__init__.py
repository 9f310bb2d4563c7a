"""Presets as files of other tools: scripts with ``tc``, Mahimahi traces, JSON.

- ``access``: both directions of a preset, from its resolved run.
- ``quantiles``: distributions as tables of quantiles.
- ``intervals``: a few drawn reconfiguration intervals, for formats without random numbers.
- ``losses``, ``queues``: loss models and queue disciplines in all formats.
- ``radio_link``: what a radio link delivers, by a simulation.
- ``format``: the contract of a format, and text that formats share.
- ``formats``: formats of other tools by name; a new one is a line there and a module.
- ``netem``: a shell script with ``tc``.
- ``netem_arguments``, ``netem_schedule``, ``netem_script``: its arguments, changes over time, and fixed parts.
- ``mahimahi``: a shell script with packet-delivery traces.
- ``json_document``: a document with every number, and its schema.
- ``export``: files of several presets, and their directory.
"""
