"""Resolve a scenario into runs, and analyse them before they run.

``document``: a scenario as given, with its preset and its settings
``access``: an access network: a preset, a scenario, or two rates and a round-trip time
``default_folder``: default output directories of commands that answer one question
``sweep_cells``: the scenario of each cell of a sweep
``input_files``: traces, pages and constellations that a plan needs beside its scenario
``resolve``: one resolved run (``RunSpec``) from one scenario
``plan``: every run of a scenario, each with an id
``randomness``: random inputs of a resolved run
``spec``: types of a resolved run, run ids, columns of the results
``link``: stages of one direction of a link: queue, transmitter, radio, loss, delay
``network``: nodes, links, routes, proxies, handovers, constellations and contact plans
``flow``: flows, loads and transports, congestion controllers
``dtn``: bundle nodes, their paths and the integrity of bundles
``cost``: events and memory of a run
``analysis``: performance bounds and lint warnings
"""
