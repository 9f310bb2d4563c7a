"""A store for people: a page that opens anywhere, a notebook, spreadsheets, plain files. Nothing here runs anything.

``base`` is what every page is made of, those of studies, of the map and of ``agree`` too; ``report`` is the page of a
store, ``page_units`` what ``bentpipe browse`` says of one.
"""
