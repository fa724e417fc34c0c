"""Models: features → hidden → likelihood."""

from tggm.models.layers import Bounded as Bounded
from tggm.models.layers import Directed as Directed
from tggm.models.layers import Features as Features
from tggm.models.layers import Gaussian as Gaussian
from tggm.models.layers import Hidden as Hidden
from tggm.models.layers import Identity as Identity
from tggm.models.layers import Incomplete as Incomplete
from tggm.models.layers import Latent as Latent
from tggm.models.layers import Likelihood as Likelihood
from tggm.models.layers import Output as Output
from tggm.models.layers import Periodic as Periodic
from tggm.models.layers import Probit as Probit
from tggm.models.layers import Shallow as Shallow
from tggm.models.layers import part as part
from tggm.models.network import Model as Model
from tggm.models.network import Network as Network
