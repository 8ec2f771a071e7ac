"""Evidence of variances of groups of weights and of noise, whose logarithms are linear in theta.

With the posterior of the weights of `inference.weights.groups`, k outputs and n observations,

    d log p / d log tau_g = (|w_g|^2 / tau_g - k gamma_g) / 2 ,
    d log p / d log s = (tr((Y - Psi w)' R^-1 (Y - Psi w)) / s - k (n - sum_g gamma_g)) / 2 .

An evaluation costs O(M^3) and no pass over the rows.
"""

from __future__ import annotations

import numpy as np

from coupledgp.inference.evidence.objective import Box, VectorObjective
from coupledgp.inference.weights.groups import GroupWeights, WeightSums
from coupledgp.random import FloatArray, IntArray

# Furthest that a logarithm goes from its start.
FURTHEST = 6.0


class ScaleEvidence(VectorObjective):
    """Minus the log posterior per observation of steps from a start, and its gradient.

    Variables (1 + q,) are `log s` and hyperparameters theta with normal priors, where
    `log tau = J (theta - theta_0)`.

    Parameters
    ----------
    sums
        Sums over the rows, of features at theta_0.
    groups
        Number (M,) of the group of each weight.
    jacobian
        J (G, q).
    start
        `log s` and theta_0, (1 + q,).
    means, widths
        Priors (1 + q,).
    fits_noise
        Whether the noise varies.
    """

    def __init__(
        self,
        sums: WeightSums,
        groups: IntArray,
        jacobian: FloatArray,
        start: FloatArray,
        means: FloatArray,
        widths: FloatArray,
        fits_noise: bool = True,
    ) -> None:
        self.sums, self.groups, self.jacobian = sums, groups, jacobian
        self.start, self.means, self.widths = start, means, widths
        self.fits_noise = fits_noise

    def box(self, start: FloatArray) -> Box:
        room = np.full(start.size, FURTHEST)
        room[0] *= self.fits_noise
        return list(zip(start - room, start + room, strict=True))

    def value_and_gradient(self, variables: FloatArray) -> tuple[float, FloatArray]:
        """See the base class.

        Raises
        ------
        NumericalError
            The posterior of the weights is not finite.
        """
        noise = float(np.exp(variables[0]))
        variances = np.exp(self.jacobian @ (variables - self.start)[1:])
        found = GroupWeights(self.sums, self.groups, variances, noise)
        n_outputs, count = self.sums.cross.shape[1], self.sums.n_counted
        squares = np.bincount(self.groups, np.square(found.mean).sum(axis=1), variances.size)
        of_groups = 0.5 * (squares / variances - n_outputs * found.determined)
        of_noise = 0.5 * (found.residual / noise - n_outputs * (count - found.determined.sum()))
        gradient = -np.append(of_noise, self.jacobian.T @ of_groups)
        gaps = (variables - self.means) / self.widths
        value = -found.log_evidence + 0.5 * float(gaps @ gaps)
        gradient += gaps / self.widths
        if not self.fits_noise:
            gradient[0] = 0.0
        return value / (count * n_outputs), gradient / (count * n_outputs)
