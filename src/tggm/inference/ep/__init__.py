"""Expectation propagation: Gaussian sites in place of walls."""
