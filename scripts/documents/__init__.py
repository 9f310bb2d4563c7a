"""What `make docs` does, beside Zensical: a copy of the documents as it reads them, and a check of what it wrote.

In the order of the work: ``staging`` (which files become pages) with ``dialect`` (the forges' Markdown as
Python-Markdown reads it) and ``formulas`` (LaTeX to MathML), ``gallery`` (scenarios, run and drawn), ``api`` (a page of
docstrings) with ``roles`` (what they call by Sphinx's names), ``offline`` (what Zensical would fetch), and last
``checking`` (links of the site). ``__main__`` is the whole.
"""
