"""The command line: `coupledgp fit`, `predict`, `interpolate`, `report` and `demo`."""

from typing import TYPE_CHECKING

from coupledgp.lazy import attach

if TYPE_CHECKING:
    from coupledgp.cli.app import app as app
    from coupledgp.cli.app import main as main
    from coupledgp.cli.app import run as run
else:
    __all__, __getattr__, __dir__ = attach(
        __name__,
        {
            "coupledgp.cli.app": ["app", "main", "run"],
        },
    )
