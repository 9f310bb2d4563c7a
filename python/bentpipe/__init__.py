"""bentpipe: a laboratory for transport protocols over satellite paths."""
