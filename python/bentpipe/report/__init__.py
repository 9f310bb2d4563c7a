"""Reports of a store: pages that need no network, notebooks, spreadsheets, plain files. A report runs nothing.

page: the frame of every page (``base.html``), also for studies, break-even maps and engine validation
vega_bundle: Vega-Lite and its licence, for the pages
headline: the first lines of a page
html_table: tables of a page as data, with ``parts.html`` and ``tables.js``
findings: rankings of settings with their differences
tables, call_table, page_load_tables: the tables of a store
store_page: the page of a store (``store_page.html``)
notebook: the same as a notebook
browse_summary: the report of ``bentpipe browse``
site_page: the page of a site's loads (``site_page.html``)
recording_page: the page of a recorded session (``recording_page.html``)
perf_page: the page of a measurement of ``perf`` (``perf_page.html``)
call_page: the page of its calls (``call_page.html``)
time_series: figures of recordings over time
export: the choice of a file format (``store/export``)
ods, ods_template: spreadsheets, also from the user's template
"""
