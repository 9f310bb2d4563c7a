"""A store for people: a page that opens anywhere, a notebook, spreadsheets, plain files. Nothing here runs anything.

``base`` with ``base.html`` is the frame of every page, those of studies, of the map and of ``agree`` too, ``tabular``
their tables, ``parts.html`` what these look like; ``report`` with ``store.html`` is the page of a store,
``page_units`` what ``bentpipe browse`` says of one.
"""
