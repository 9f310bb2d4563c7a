"""Build steps of `make docs` around Zensical.

- ``staging``: copies the documents as Zensical reads them
- ``dialect``: converts GitHub's Markdown to that of Python-Markdown
- ``formulas``: LaTeX to MathML
- ``gallery``: runs and draws the scenarios
- ``api``: the page of the API
- ``roles``: Sphinx roles in docstrings as code
- ``offline``: replaces links to other hosts in the site
- ``checking``: checks the links of the site
"""
