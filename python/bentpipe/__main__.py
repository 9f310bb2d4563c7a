"""``python -m bentpipe``: the command line."""

from bentpipe.cli import main

main()
