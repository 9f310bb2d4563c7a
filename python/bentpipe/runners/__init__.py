"""Where runs run: worker processes of this machine, or a Dask cluster. Plans go in, the engine's bytes come out."""
