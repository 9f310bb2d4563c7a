"""Operations of the package.

- ``plan``: every run of a scenario
- ``check``: validation, bounds and lint warnings
- ``run``: execution
- ``results``: measurements and metrics of a store
- ``replay``: one run again, with its packets
- ``engine_choice``: simulation or emulation
- ``user_code``: controllers and schedulers of the user
"""
