"""Log Z and moments to rounding error, where mathematics allows it, and the densities of sums behind them."""
