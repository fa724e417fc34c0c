"""Su, Liao, Chen and Carin (2016), "Nonlinear statistical learning with truncated Gaussian graphical models".

The paper's models and algorithms as published, misprints corrected. docs/paper.md lists which function
implements which equation.
"""

from tggm.paper._estimators import PaperClassifier as PaperClassifier
from tggm.paper._estimators import PaperRegressor as PaperRegressor

__all__ = ["PaperClassifier", "PaperRegressor"]
