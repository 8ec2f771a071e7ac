"""Pictures, and the page and terminal that show a report; matplotlib is imported at first use."""

from typing import TYPE_CHECKING

from coupledgp.ground.extras import attach

if TYPE_CHECKING:
    from coupledgp.diagnostics.pages.field import RoadMap as RoadMap
    from coupledgp.diagnostics.pages.field import SurfaceMap as SurfaceMap
    from coupledgp.diagnostics.pages.mesh import NodeLayout as NodeLayout
    from coupledgp.diagnostics.pages.mesh import NodeMap as NodeMap
    from coupledgp.diagnostics.pages.picture import plotted as plotted
    from coupledgp.diagnostics.pages.pictures import band as band
    from coupledgp.diagnostics.pages.pictures import confusion_map as confusion_map
    from coupledgp.diagnostics.pages.pictures import predictions as predictions
else:
    __all__, __getattr__, __dir__ = attach(__name__, {
        "field": "RoadMap SurfaceMap",
        "mesh": "NodeLayout NodeMap",
        "picture": "plotted",
        "pictures": "band confusion_map predictions",
    })  # fmt: skip
