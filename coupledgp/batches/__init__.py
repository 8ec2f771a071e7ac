"""Tables in batches that can be gone through again and again: files, arrays, iterables."""

from coupledgp.batches.parse import FileBatches as FileBatches
from coupledgp.batches.parse import as_source as as_source
from coupledgp.batches.sources import ArrayBatches as ArrayBatches
from coupledgp.batches.sources import BatchSource as BatchSource
from coupledgp.batches.sources import IterableBatches as IterableBatches
from coupledgp.batches.sources import TableBatch as TableBatch
