"""Checks of predictions: residuals along columns, shapes of laws, the data, nearby kernels."""

from coupledgp.diagnostics.checks.data import data_checks
from coupledgp.diagnostics.checks.kernels import kernel_checks
from coupledgp.diagnostics.checks.residuals import LOOKS as LOOKS
from coupledgp.diagnostics.checks.residuals import Look as Look
from coupledgp.diagnostics.checks.residuals import residual_checks
from coupledgp.diagnostics.checks.shapes import shape_checks
from coupledgp.diagnostics.tables import BETTER, HONEST, Rule

RULES: tuple[Rule, ...] = (
    Rule(BETTER, "data", data_checks),
    Rule(HONEST, "shapes", shape_checks),
    Rule(BETTER, "residuals", residual_checks),
    Rule(BETTER, "nearby kernel", kernel_checks, "full"),
)
