"""Mean field: the best factorised approximation, and bounds on log Z."""
