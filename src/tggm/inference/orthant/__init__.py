"""Orthant probabilities by separation of variables."""
