"""The shape convention of all engines: any leading axes of `shift` are rows.

An engine works on shift of shape (rows, m); `restore` puts the leading axes back on everything it found.
"""

import dataclasses

from jax import Array

from tggm.gaussian import Moments, TruncatedGaussian


def restore(moments: Moments, tg: TruncatedGaussian) -> Moments:
    """Give results of shape (rows, ...) the leading axes of the shift they belong to."""
    lead = tg.shift.shape[:-1]

    def by_row(a: Array) -> Array:
        return a.reshape(lead + a.shape[1:])

    draws = moments.draws
    return dataclasses.replace(
        moments,
        mean=by_row(moments.mean),
        var=by_row(moments.var),
        log_z=None if moments.log_z is None else by_row(moments.log_z),
        converged=by_row(moments.converged),
        n_iter=by_row(moments.n_iter),
        log_z_error=None if moments.log_z_error is None else by_row(moments.log_z_error),
        draws=None if draws is None else draws.reshape((draws.shape[0], *lead, draws.shape[-1])),
    )
