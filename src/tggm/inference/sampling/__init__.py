"""Samplers: Gibbs and exact Hamiltonian Monte Carlo."""
