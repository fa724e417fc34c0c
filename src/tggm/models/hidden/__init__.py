"""p(h | ψ): the truncated Gaussian of the hidden units."""

from tggm.models.hidden.base import Hidden as Hidden
from tggm.models.hidden.box_layers import BoxLayer as BoxLayer
from tggm.models.hidden.box_layers import BoxLayers as BoxLayers
from tggm.models.hidden.directed import Directed as Directed
from tggm.models.hidden.lateral import Lateral as Lateral
from tggm.models.hidden.shallow import Shallow as Shallow
from tggm.models.hidden.undirected import Undirected as Undirected
from tggm.models.hidden.unit_limits import UNITS as UNITS

HIDDEN: dict[str, type[Hidden]] = {
    "shallow": Shallow,
    "lateral": Lateral,
    "directed": Directed,
    "undirected": Undirected,
}
DEEP = ("directed", "undirected")  # those of several layers
BOXED: dict[str, type[BoxLayer | BoxLayers]] = {"shallow": BoxLayer, "directed": BoxLayers}  # with `UNITS`
