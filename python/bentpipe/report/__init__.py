"""A store for people: a page that opens anywhere, a notebook, spreadsheets, plain files. Nothing here runs anything.

``base`` with ``base.html`` is the frame of every page, those of studies, of the map and of ``agree`` too, with the
``library`` that draws; ``opening`` is how each begins; ``tabular`` is their tables as data, ``parts.html`` what these
look like, ``tables.js`` what sorts them. ``ahead`` (who is, and by how much), ``tables``, ``calls`` and
``page_loads`` <- ``report`` with ``store.html``, the page of a store; ``notebook`` is its short form,
``page_units`` what ``bentpipe browse`` says of one, ``visit`` with ``visit.html`` what it says of a site;
``record`` with ``record.html`` is a recorded session, ``measured`` with ``measured.html`` a measurement of ``perf``,
``called`` with ``called.html`` its calls;
``lines`` are the figures of both.
``export`` chooses among files (``store/export``)
and ``ods``, spreadsheets, with ``ods_template`` for somebody's own.
"""
