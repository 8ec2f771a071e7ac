"""The command line: `coupledgp fit`, `predict`, `field`, `graph`, `krige`, `forecast`, ..."""

from typing import TYPE_CHECKING

from coupledgp.ground.lazy import attach

if TYPE_CHECKING:
    from coupledgp.cli2.app import main as main
    from coupledgp.cli2.app import run as run
else:
    __all__, __getattr__, __dir__ = attach(__name__, {"app": "main run"})
