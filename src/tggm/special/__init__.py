"""Functions of the normal truncated to [0, ∞): numbers in, numbers out."""
