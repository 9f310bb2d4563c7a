"""Command line as ``python -m bentpipe``."""

from bentpipe.launch import main

main()
