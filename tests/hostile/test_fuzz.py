"""A short run of the fuzz of text, graph and mesh files; `make fuzz` has the long one."""

import pytest

from tests.hostile.cases import check
from tests.hostile.fuzz import mutants, sources

COUNT, SEED = 60, 5


@pytest.mark.filterwarnings("default")
@pytest.mark.parametrize(
    "case", [pytest.param(case, id=case.name) for case in mutants(COUNT, SEED)]
)
def test_mutants_of_files_end_in_0_or_in_2_and_one_line(case, shared, tmp_path):
    check(case, tmp_path, shared)


def test_mutants_differ_from_their_files_and_repeat():
    cases = list(mutants(COUNT, SEED))
    contents = [next(iter(case.files.values())) for case in cases]
    originals = [content for content, _ in sources().values()]
    changed = sum(content not in originals for content in contents)
    assert changed > 0.9 * COUNT
    assert [next(iter(c.files.values())) for c in mutants(COUNT, SEED)] == contents
