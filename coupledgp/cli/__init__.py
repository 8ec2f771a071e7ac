"""The command line: `coupledgp fit`, `coupledgp predict` and `coupledgp demo`."""

from coupledgp.cli.app import app, main, run

__all__ = ["app", "main", "run"]
