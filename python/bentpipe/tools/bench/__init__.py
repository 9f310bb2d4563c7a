"""``bentpipe bench``: what the simulator, the emulator and the sockets give, and what they cost."""
