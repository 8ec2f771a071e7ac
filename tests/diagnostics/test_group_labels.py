"""Labels of groups of test points."""

import numpy as np
import pandas as pd
import pytest

from coupledgp.diagnostics.scoring.subject import checked_groups
from coupledgp.errors import InvalidInputError


@pytest.mark.parametrize(
    "labels",
    [
        np.array([1.0, 2.0, np.nan]),
        np.array(["a", "b", None], dtype=object),
        np.array(["a", "b", np.nan], dtype=object),
        pd.Series(["a", "b", pd.NA]),
        pd.Series(["a", "b", pd.NA], dtype="string"),
        pd.Series([1, 2, None], dtype="Int64"),
        pd.Series(pd.to_datetime(["2024-01-01", "2024-01-02", None])),
        np.array(["2024-01-01", "2024-01-02", "NaT"], dtype="datetime64[D]"),
        np.array(["2024-01-01", "2024-01-02", "NaT"], dtype="datetime64[ns]"),
    ],
    ids=str,
)
def test_a_missing_label_is_refused_by_row(labels) -> None:  # type: ignore[no-untyped-def]
    with pytest.raises(InvalidInputError, match=r"groups: .* for 'day' in row 2"):
        checked_groups({"day": labels}, 3)


def test_labels_of_every_kind_are_kept() -> None:
    for labels in ([1, 2, 2], ["a", "b", ""], [True, False, True], ["nan", "None", "NaT"]):
        assert checked_groups(labels, 3)["group"].tolist() == labels
