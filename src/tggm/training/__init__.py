"""Objective times optimiser gives fitted parameters: one training loop for every method and model."""

from tggm.training.layout import Layout as Layout
from tggm.training.loop import Hyper as Hyper
from tggm.training.loop import Membership as Membership
from tggm.training.loop import Plan as Plan
from tggm.training.loop import State as State
from tggm.training.objectives import METHODS as METHODS
from tggm.training.objectives import Context as Context
from tggm.training.objectives import Objective as Objective
from tggm.training.objectives import Rows as Rows
from tggm.training.objectives import Scaling as Scaling
from tggm.training.optimisers import OPTIMISERS as OPTIMISERS
from tggm.training.optimisers import SCHEDULES as SCHEDULES
from tggm.training.rows import hold_out as hold_out
from tggm.training.rows import membership as membership
from tggm.training.training import Training as Training
from tggm.training.training import hyper_parameters as hyper_parameters
from tggm.training.training import train as train
