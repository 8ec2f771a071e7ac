"""Tables in batches that can be gone through again and again, and passes over them."""

from coupledgp.batches.sources import BatchSource as BatchSource
from coupledgp.batches.sources import TableBatch as TableBatch
