"""From a scenario to resolved runs, and what follows from those before they run.

``runs`` makes the plan. A run of it is made by ``resolve``, out of ``graph`` (nodes, links and ways, with ``proxies``
on them), ``stages`` (one direction of a link), ``changes`` (hand-overs), ``hops`` (what flows cross) and ``transports``
(options in the engine's words). Of a resolved run ``chance`` says what is drawn, ``groups`` which flows are measured
together, ``bounds`` what it cannot beat (with ``startup``), ``price`` what it costs and ``remarks`` what is hardly
meant. ``controllers`` reads the engine's list of them; ``identity`` is a run's id.
"""
