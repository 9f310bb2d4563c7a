"""Plug-in of pytest with a fixture for a path, for tests of user code.

``access``: path of a test, in simulation and for real programs
``plugin``: fixture and option of pytest; it imports no other module before a test requests the fixture
"""
