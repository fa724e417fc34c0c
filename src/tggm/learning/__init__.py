"""Objective times optimiser gives fitted parameters: one training loop for every method and model."""

from tggm.learning.layout import Layout as Layout
from tggm.learning.loop import Hyper as Hyper
from tggm.learning.loop import Membership as Membership
from tggm.learning.loop import Plan as Plan
from tggm.learning.loop import State as State
from tggm.learning.objectives import METHODS as METHODS
from tggm.learning.objectives import Context as Context
from tggm.learning.objectives import Objective as Objective
from tggm.learning.objectives import Rows as Rows
from tggm.learning.objectives import Scaling as Scaling
from tggm.learning.optimisers import OPTIMISERS as OPTIMISERS
from tggm.learning.optimisers import SCHEDULES as SCHEDULES
from tggm.learning.rows import hold_out as hold_out
from tggm.learning.rows import membership as membership
from tggm.learning.training import Training as Training
from tggm.learning.training import hyper_parameters as hyper_parameters
from tggm.learning.training import train as train
