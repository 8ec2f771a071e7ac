"""Available memory from files of a fake machine, and the refusal of what needs more."""

from pathlib import Path

import numpy as np
import pytest

import coupledgp as cgp
from coupledgp.errors import InvalidInputError, MemoryLimitError
from coupledgp.ground import memory
from coupledgp.ground.memory import available_bytes, check_memory, named_exhaustion

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


def test_a_limit_that_slows_down_counts(root: Path) -> None:
    write(root, {"proc/self/cgroup": "0::/job", **version_2("job", 8 * GIB, GIB)})
    write(root, {"sys/fs/cgroup/job/memory.high": 3 * GIB})
    assert available_bytes(root) == 2 * GIB
    write(root, {"sys/fs/cgroup/job/memory.high": "max"})
    assert available_bytes(root) == 7 * GIB


def test_no_more_is_given_back_than_is_in_use(root: Path) -> None:
    write(root, {"proc/self/cgroup": "0::/job", **version_2("job", 4 * GIB, GIB, 2 * GIB)})
    assert available_bytes(root) == 4 * GIB


def test_limits_that_a_batch_system_nests(root: Path) -> None:
    """Slurm limits the job and the step, and the task's own group has no limit."""
    job = "system.slice/slurmstepd.scope/job_7"
    task = f"{job}/step_0/user/task_0"
    write(root, {"proc/self/cgroup": f"0::/{task}", **version_2(task, "max", GIB)})
    write(root, version_2(f"{job}/step_0", 6 * GIB, GIB) | version_2(job, 5 * GIB, 2 * GIB))
    assert available_bytes(root) == 3 * GIB
    old = "slurm/uid_1000/job_7/step_0/task_0"
    write(root, {"proc/self/cgroup": f"4:memory:/{old}", **version_1(old, 2**63 - 4096, GIB)})
    write(root, version_1("slurm/uid_1000/job_7", 2 * GIB, GIB))
    assert available_bytes(root) == GIB


MOUNTED = """22 1 0:5 / /proc rw - proc proc rw
31 24 0:27 /docker/abc /sys/fs/cgroup/memory ro,nosuid master:11 - cgroup cgroup rw,memory
32 24 0:28 / /sys/fs/cgroup/cpu rw - cgroup cgroup rw,cpu
33 24 0:29 / /mnt/control\\040groups rw - cgroup2 cgroup2 rw
broken"""


def test_hierarchies_are_sought_where_they_are_mounted(root: Path) -> None:
    mounted = MOUNTED.replace("\\\\", "\\")
    write(root, {"proc/self/mountinfo": mounted, "proc/self/cgroup": "4:memory:/docker/abc/in"})
    write(root, version_1("in", 3 * GIB, GIB) | version_1("docker/abc/in", GIB, 0))
    assert available_bytes(root) == 2 * GIB
    write(root, {"proc/self/cgroup": "0::/a", "mnt/control groups/a/memory.max": GIB})
    assert available_bytes(root) == GIB


def test_a_limit_of_version_1_above_what_a_container_sees(root: Path) -> None:
    write(root, {"proc/self/cgroup": "4:memory:/", **version_1("", 2**63 - 4096, GIB)})
    statistics = f"hierarchical_memory_limit {4 * GIB}\ntotal_inactive_file 0"
    write(root, {"sys/fs/cgroup/memory/memory.stat": statistics})
    assert available_bytes(root) == 3 * GIB


def test_the_limit_of_address_space_counts(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    resource = pytest.importorskip("resource")
    write(root, {"proc/self/statm": f"{GIB // resource.getpagesize()} 5 5"})
    monkeypatch.setattr(resource, "getrlimit", lambda kind: (3 * GIB, 9 * GIB))
    assert available_bytes(root) == 2 * GIB
    monkeypatch.setattr(resource, "getrlimit", lambda kind: (GIB // 2, 9 * GIB))
    assert available_bytes(root) == 0


@pytest.mark.parametrize(
    "error",
    [
        MemoryError(),
        MemoryError("Unable to allocate 8 GiB"),
        RuntimeError("[enforce fail] DefaultCPUAllocator: can't allocate memory: you tried to"),
        RuntimeError("DefaultCPUAllocator: not enough memory: you tried to allocate 8 bytes."),
        RuntimeError("std::bad_alloc"),
        RuntimeError("can't start new thread"),
    ],
)
def test_all_ways_to_run_out_are_one(error: Exception) -> None:
    with (
        pytest.raises(MemoryLimitError, match=r"^fit: the memory was used up"),
        named_exhaustion("fit"),
    ):
        raise error


def test_other_errors_are_passed_on() -> None:
    with pytest.raises(RuntimeError, match=r"^shapes"), named_exhaustion("fit"):
        raise RuntimeError("shapes do not fit")
    with pytest.raises(MemoryLimitError, match=r"^X: 5 rows"), named_exhaustion("fit"):
        raise MemoryLimitError("X: 5 rows")


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


@pytest.mark.parametrize(
    ("part", "call"),
    [
        ("coupledgp.gp.weight_space.WeightSpaceGP.latent_law",
         lambda gp, X: gp.predict_quantiles(X)),
        ("coupledgp.gp.weight_space.WeightSpaceGP.log_density",
         lambda gp, X: gp.log_density(X, X[:, 0])),
        ("coupledgp.gp.weight_space.WeightSpaceGP.prior",
         lambda gp, X: gp.prior_covariance(X)),
    ],
)  # fmt: skip
def test_predictions_of_every_kind_name_what_ran_out(part, call, monkeypatch) -> None:  # type: ignore[no-untyped-def]
    X = np.random.default_rng(0).normal(size=(9, 2))
    gp = cgp.SparseSpectrumGPRegressor(n_frequencies=4, optimizer=None).fit(X, X[:, 0])

    def run_out(*_, **__):  # type: ignore[no-untyped-def]
        raise MemoryError

    monkeypatch.setattr(part, run_out)
    with pytest.raises(MemoryLimitError, match="the memory was used up"):
        call(gp, X)
