"""Types of a resolved run, and functions on them.

``queries``: rates and delays of stages, transport of flows
``result_columns``: columns of the result tables
``run_id``: the id of a run
``run_spec``: types of a resolved run (generated)
"""
