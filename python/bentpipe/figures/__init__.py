"""The figures of a store, one definition each, for a page, for PDF and for SVG; ``registry`` has them all.

``dimensions`` (what a sweep varies, as something to draw), ``thinning``, ``style`` and ``figure`` <- ``material`` (what
the figures of one store share) <- a file for each kind of figure <- ``registry``.
"""
