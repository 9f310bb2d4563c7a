"""From a scenario to resolved runs, and what follows from those before they run.

``runs`` makes the plan, out of a ``document`` (a scenario as it was given) and its ``cells``. A run of it is
made by ``resolve``, out of ``graph`` (nodes, links and ways, with ``proxies`` on them), ``stages`` (one
direction of a link, with ``losses``, ``slots``, ``queues`` and ``schedulers`` of users; ``radio`` with
``channels`` and their ``channel_tables``, ``nr``, ``acm``), ``changes`` (hand-overs; ``orbits`` has those of
a constellation, ``following`` those of a contact plan), ``flows`` with ``loads``, ``datagrams`` and
``pages``, ``bundles`` between nodes that store them (and their ``integrity``), ``quic`` (with its
``profiles``) and ``tcp`` with ``windows``, and ``named`` (controllers). ``files`` reads what a plan needs
beside its scenario, ``controllers`` the engine's list.

Of a resolved run (``spec`` has its types) ``facts`` says rates and delays, ``chance`` what is drawn,
``groups`` which flows are measured together and ``measured`` what is, ``hops`` what flows cross, ``bounds``
what it cannot beat (with ``startup``), ``price`` what it costs (with ``crossings`` of bundles, and what is
``unacknowledged`` where packets are ``late``) and ``remarks`` what is hardly meant. ``identity`` is its id.
"""
