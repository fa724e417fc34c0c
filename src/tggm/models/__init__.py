"""Features → hidden → likelihood: what a model is. `Model` is all that crosses to what stands above."""

from tggm.models.architecture import INITIALISERS as INITIALISERS
from tggm.models.architecture import Architecture as Architecture
from tggm.models.model import Model as Model
