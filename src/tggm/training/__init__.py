"""Training: one compiled loop for every objective and model."""

from tggm.training.compilation_cache import precision as precision
from tggm.training.loop import OPTIMISERS as OPTIMISERS
from tggm.training.loop import SCHEDULES as SCHEDULES
from tggm.training.loop import LogDensity as LogDensity
from tggm.training.loop import Objective as Objective
from tggm.training.loop import Plan as Plan
from tggm.training.loop import hyper_parameters as hyper_parameters
from tggm.training.rows import Rows as Rows
from tggm.training.train import Milestones as Milestones
from tggm.training.train import Program as Program
from tggm.training.train import Trained as Trained
from tggm.training.train import train as train
