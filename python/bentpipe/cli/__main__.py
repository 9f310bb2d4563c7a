"""Entry point of ``python -m bentpipe.cli``."""

from bentpipe.cli import main

if __name__ == "__main__":
    main()
