"""p(y | h, x): how the outputs follow from the last hidden units."""

from tggm.models.likelihoods.base import Likelihood as Likelihood
from tggm.models.likelihoods.base import Output as Output
from tggm.models.likelihoods.censored import CensoredGaussian as CensoredGaussian
from tggm.models.likelihoods.censored import Incomplete as Incomplete
from tggm.models.likelihoods.censored import measured as measured
from tggm.models.likelihoods.gaussian import Gaussian as Gaussian
from tggm.models.likelihoods.probit import Probit as Probit

LIKELIHOODS: dict[str, type[Likelihood]] = {
    "gaussian": Gaussian,
    "censored": CensoredGaussian,
    "probit": Probit,
}
