"""The figures of a store, one definition each, for a page, for PDF and for SVG; ``registry`` has them all.

``dimensions`` (what a sweep varies, as something to draw), ``thinning``, ``style``, ``narrow`` (a paper's column),
``files`` (which figures become files of their own, and how) and ``figure`` <- ``material`` (what the figures of one
store share) <- a file for each kind of figure <- ``registry``. Of cells: ``over_cells``; of
runs: ``over_time`` (with ``legs``: whose window is drawn where proxies split); of ``calls``; of ``bundles``; of those
who share a link: ``users``; of page loads: ``page_loads`` (what is compared) <- ``boxes``, ``distributions``, and
with their ``packets`` ``sequence`` and ``ladder``; ``ratio_map``, with ``contour`` and the ``picked_loads`` below
it, is the crossover's."""
