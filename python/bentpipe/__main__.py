"""``python -m bentpipe``: the command line."""

from bentpipe.launch import main

main()
