"""Parameters and data in, truncated Gaussians out."""

from tggm.models.initial import INITIALISERS as INITIALISERS
from tggm.models.initial import initial_parameters as initial_parameters
from tggm.models.shallow import Shallow as Shallow
from tggm.models.shallow import gaussian_log_density as gaussian_log_density
from tggm.models.shallow import latent_moments as latent_moments
from tggm.models.shallow import locations as locations
from tggm.models.shallow import log_likelihood as log_likelihood
from tggm.models.shallow import output_mean as output_mean
from tggm.models.shallow import output_moments as output_moments
from tggm.models.shallow import posterior as posterior
from tggm.models.shallow import prior as prior
