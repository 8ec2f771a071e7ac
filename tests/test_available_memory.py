"""Available memory from files of a fake machine, and the refusal of what needs more."""

from pathlib import Path

import pytest

from coupledgp import memory
from coupledgp.errors import InvalidInputError, MemoryLimitError
from coupledgp.memory import available_bytes, check_memory

GIB = 2**30
MEMINFO = "MemTotal:       67108864 kB\nMemFree: 1 kB\nMemAvailable:   33554432 kB\n"


def write(root: Path, files: dict[str, object]) -> None:
    for name, content in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"{content}\n")


@pytest.fixture
def root(tmp_path: Path) -> Path:
    write(tmp_path, {"proc/meminfo": MEMINFO, "proc/self/cgroup": "0::/"})
    return tmp_path


def test_the_machine_alone(root: Path) -> None:
    assert available_bytes(root) == 32 * GIB


def version_2(folder: str, limit: object, used: int, inactive: int = 0) -> dict[str, object]:
    top = f"sys/fs/cgroup/{folder}"
    statistics = f"anon 5\ninactive_file {inactive}\nactive_file 7"
    return {
        f"{top}/memory.max": limit, f"{top}/memory.current": used, f"{top}/memory.stat": statistics,
    }  # fmt: skip


def version_1(folder: str, limit: int, used: int, inactive: int = 0) -> dict[str, object]:
    top = f"sys/fs/cgroup/memory/{folder}"
    statistics = f"inactive_file 1\ntotal_inactive_file {inactive}"
    return {
        f"{top}/memory.limit_in_bytes": limit, f"{top}/memory.usage_in_bytes": used,
        f"{top}/memory.stat": statistics,
    }  # fmt: skip


def test_a_limit_of_version_2(root: Path) -> None:
    write(root, {"proc/self/cgroup": "0::/batch/job", **version_2("batch/job", 4 * GIB, GIB)})
    assert available_bytes(root) == 3 * GIB


def test_pages_that_can_be_given_back_are_available(root: Path) -> None:
    write(root, {"proc/self/cgroup": "0::/job", **version_2("job", 4 * GIB, 3 * GIB, 2 * GIB)})
    assert available_bytes(root) == 3 * GIB


def test_the_parents_limits_count(root: Path) -> None:
    write(root, {"proc/self/cgroup": "0::/batch/job"})
    write(root, version_2("batch/job", "max", 0) | version_2("batch", 2 * GIB, GIB))
    assert available_bytes(root) == GIB


def test_without_a_limit_the_machine_counts(root: Path) -> None:
    write(root, {"proc/self/cgroup": "0::/job", **version_2("job", "max", GIB)})
    assert available_bytes(root) == 32 * GIB


def test_more_than_the_limit_in_use(root: Path) -> None:
    write(root, {"proc/self/cgroup": "0::/job", **version_2("job", GIB, 2 * GIB)})
    assert available_bytes(root) == 0


def test_limits_of_version_1_beside_others(root: Path) -> None:
    lines = "9:name=systemd:/\n5:cpu,cpuacct:/a\n4:hugetlb,memory:/a/b\n0::/"
    write(root, {"proc/self/cgroup": lines, **version_1("a/b", 8 * GIB, 3 * GIB, GIB)})
    assert available_bytes(root) == 6 * GIB
    write(root, version_1("", 2**63 - 4096, 10 * GIB))
    assert available_bytes(root) == 6 * GIB


def test_inside_a_container_the_path_may_be_the_hosts(root: Path) -> None:
    write(root, {"proc/self/cgroup": "4:memory:/docker/abc", **version_1("", 2 * GIB, GIB)})
    assert available_bytes(root) == GIB
    write(root, {"proc/self/cgroup": "0::/docker/abc", **version_2("", GIB, GIB // 2)})
    assert available_bytes(root) == GIB // 2


def test_files_that_make_no_sense_are_passed_over(root: Path) -> None:
    write(root, {"proc/self/cgroup": "nonsense\n0::/job", **version_2("job", "many", GIB)})
    assert available_bytes(root) == 32 * GIB


def test_other_systems(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memory.os, "sysconf", lambda name: 4096)
    assert available_bytes(tmp_path) == 4096**2
    monkeypatch.delattr(memory.os, "sysconf")
    assert available_bytes(tmp_path) == float("inf")


def test_refusal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memory, "available_bytes", lambda: 2.0 * GIB)
    check_memory(2 * GIB, "X: 5 rows", "use fewer")
    message = r"^X: 5 rows need about 2\.5 GiB, 2 GiB are available; use fewer$"
    with pytest.raises(MemoryLimitError, match=message) as caught:
        check_memory(2.5 * GIB, "X: 5 rows", "use fewer")
    assert isinstance(caught.value, InvalidInputError)
    assert isinstance(caught.value, MemoryError)
    with pytest.raises(MemoryLimitError, match=r"500 GiB, 100 GiB are allowed; use 0\.2 of it$"):
        check_memory(500 * GIB, "X", lambda share: f"use {share} of it", limit=100 * GIB)


def test_this_machine_has_some() -> None:
    assert 0 < available_bytes() < float("inf")
