"""Linter of prose: sentence length, order and vocabulary (docs/decisions/0092).

- ``rules.toml``: the rules
- ``rules``: reads the rules and applies them to a text
- ``text``: texts with masked code, and their sentences
- ``markdown``, ``plain``, ``python``, ``rust``, ``templates``: texts of Markdown, of docstrings and TOML, of Python, of
  Rust, of pages
- ``files``: the files that are checked, and their texts
- ``baseline``: the number of findings that a file may still have
"""
