"""Settings of small fits. With 60 rows (or a few less) of 3 columns one program serves many tests."""

SMALL = {"hidden": (6,), "n_members": 2, "batch_size": 32, "random_state": 0}
