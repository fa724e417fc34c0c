"""How one column becomes numbers, learned from the rows that a model is trained on; a file for each kind."""

from tggm.tables.columns.base import Column as Column
from tggm.tables.columns.category import Category as Category
from tggm.tables.columns.moment import Moment as Moment
from tggm.tables.columns.number import Number as Number
from tggm.tables.columns.ordinal import Ordinal as Ordinal
from tggm.tables.columns.statistic import Statistic as Statistic

COLUMNS: dict[str, type[Column]] = {
    "number": Number,
    "category": Category,
    "ordinal": Ordinal,
    "statistic": Statistic,
    "moment": Moment,
}  # by the name that files give them
