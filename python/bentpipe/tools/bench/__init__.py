"""``bentpipe bench``: what the engine (``simulator``, ``orbits``, ``channel``, ``users``), the ``emulator`` and the
``sockets`` give, and what they cost; ``commands``, ``planning`` and ``shells``: how long people wait, ``large`` with
100,000 runs. ``aimd`` is a controller in Python.
"""
