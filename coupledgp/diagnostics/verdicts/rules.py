"""Thresholds of the verdicts; docs/verdicts.md states them in words.

A verdict that finds fault needs two things: a figure beyond chance, and a figure that matters.
"""

# A loss to a rival is beyond chance above this many standard errors: 6 in 1000 equals lose so.
LOST = 2.5
# Log evidence, in nats, above which a nearby kernel is better: one of nineteen has it by chance in
# 19 exp(-6) = 4.7 % of true models at most.
EVIDENCE = 6.0
# An advantage is told, and a green verdict given, above this many.
TOLD = 2.0
# The same for a kernel whose range or size varies: the evidence alone, from which the logarithm of
# the number of changes is taken off, bounds what chance does.
HINTED = 1.0
# Nats per point from which a loss matters (amber) and is serious (red): one hundredth is a shift of
# each prediction by .14 of its standard deviation, one tenth by .45.
MATTERS, SERIOUS = 0.01, 0.1
# Fewest test points at which standard errors of paired differences, and coverage, say anything.
FEWEST = 8
# Ratio of the RMSE to a rival's from which copying the rival is better.
WORSE_RMSE = 1.01
# Intervals are seriously off that hold this share too few at any level, or at the widest.
SERIOUS_SHARE, SERIOUS_TAIL = 0.10, 0.05
