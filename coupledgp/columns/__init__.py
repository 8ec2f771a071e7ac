"""Tables of numbers, Booleans, categories and dates as matrices of float64, learnt from one table.

`TableEncoding` turns each column of a table into the columns of one or more parts, whose rows are
points of a Euclidean space; a stationary kernel with one lengthscale for each part is then a
product of one kernel for each part: an index kernel for a category, a periodic one for a cycle of
dates.
"""

from coupledgp.columns.encoding import MISSING as MISSING
from coupledgp.columns.encoding import TableEncoding as TableEncoding
