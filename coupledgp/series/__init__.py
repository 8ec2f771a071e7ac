"""Values of sensors over time: axes of times, durations, and the forms in which data come."""

from coupledgp.series.axis import TimeAxis as TimeAxis
from coupledgp.series.panel import Panel as Panel
from coupledgp.series.panel import as_panel as as_panel
