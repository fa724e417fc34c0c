"""Method times optimiser gives fitted parameters: one training loop for every method and model."""

from tggm.training.methods import METHODS as METHODS
from tggm.training.methods import Options as Options
from tggm.training.methods import Rows as Rows
from tggm.training.optimisers import OPTIMISERS as OPTIMISERS
from tggm.training.optimisers import SCHEDULES as SCHEDULES
from tggm.training.training import Milestones as Milestones
from tggm.training.training import Training as Training
from tggm.training.training import train as train
