"""A scenario: what its TOML file says, as typed tables with quantities in units; what is wrong is said by its key.

Nothing here runs anything, or knows how it is run. In the order of reading: ``units``, ``problems`` and ``quantities``,
of which every table is made; ``path``, ``handover``, ``tcp``, ``proxy``, ``load``, ``web_page`` and ``page_load``, the
tables; ``model``, the whole; ``sweep``, which names its places, and ``columns``, what these are called in frames;
``presets``, ``traces`` and ``har``, which read other files; ``tomltext``, which writes TOML.
"""
