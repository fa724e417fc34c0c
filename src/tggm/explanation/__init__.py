"""Why a model says what it says: parts of single predictions, and what each column is worth.

Nothing here knows models: a function from rows to answers, or to losses, is all that is asked for.
"""

from tggm.explanation.importance import Importances as Importances
from tggm.explanation.importance import permuted as permuted
from tggm.explanation.shapley import Explanation as Explanation
from tggm.explanation.shapley import explained as explained

__all__ = ["Explanation", "Importances", "explained", "permuted"]
