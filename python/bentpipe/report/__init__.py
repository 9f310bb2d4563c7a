"""Reports: HTML pages without network access, notebook output, spreadsheets and plain files. A report runs nothing.

- ``page``: frame of every page (``base.html``), also for studies, break-even maps and engine validation
- ``vega_bundle``: Vega-Lite and its licence, for the pages
- ``headline``: first lines of a page
- ``lead_sentences``: sentence on the leading variant and its lead
- ``unfinished``: sentence on transfers that did not finish
- ``html_table``: tables of a page as data, with ``parts.html`` and ``tables.js``
- ``findings``: rankings of settings with their differences
- ``tables``, ``call_table``, ``page_load_tables``: tables of a store
- ``store_page``: page of a store (``store_page.html``)
- ``brief_page``: one sentence and three figures of a store (``brief_page.html``)
- ``notebook``: output of results in a notebook
- ``browse_summary``: summary of ``bentpipe browse``
- ``site_page``: page of a site's load (``site_page.html``)
- ``recording_page``: page of a recording (``recording_page.html``)
- ``perf_page``: page of a measurement of ``perf`` (``perf_page.html``)
- ``timing_page``: page of ``bentpipe time`` (``timing_page.html``)
- ``call_page``: page of the calls of ``perf call-client`` (``call_page.html``)
- ``time_series``: figures of recordings over time
- ``export``: export of a store to a file format (``store/export``)
- ``ods``, ``ods_template``: spreadsheets, also from a template of the user
"""
