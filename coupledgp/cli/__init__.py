"""The command line: `coupledgp fit`, `predict`, `interpolate`, `report` and `demo`."""

from typing import TYPE_CHECKING

from coupledgp.ground.extras import attach

if TYPE_CHECKING:
    from coupledgp.cli.app import app as app
    from coupledgp.cli.app import run as run
    from coupledgp.cli.start import main as main
else:
    __all__, __getattr__, __dir__ = attach(__name__, {"app": "app run", "start": "main"})
