"""For tests of other people's: a plug-in of pytest with a fixture that gives a test a path.

``access`` (that path: simulated, or carried for real programs) <- ``plugin`` (what pytest loads; it imports nothing
else of ours until a test asks for the fixture).
"""
