"""The command line: `coupledgp fit`, `predict`, `field`, `graph`, `krige`, `forecast`, ..."""

from coupledgp.cli.app import main as main
from coupledgp.cli.app import run as run
