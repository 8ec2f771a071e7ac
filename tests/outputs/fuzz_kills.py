"""Writers killed at random moments: `python -m tests.outputs.fuzz_kills ROUNDS --seed SEED`.

A process writes files over and over. It is ended by a random signal after a random time, then every
file has to be whole, of one round, and after SIGTERM and SIGHUP nothing else may lie beside them.
What SIGKILL leaves has to be gone after the next write.
"""

from __future__ import annotations

import argparse
import hashlib
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from coupledgp.ground.output import write_bytes
from coupledgp.ground.temporary import PREFIX

SIGNALS = (signal.SIGKILL, signal.SIGTERM, signal.SIGHUP)
NAMES = ("a.model", "b.csv", "c.html")
LONGEST = 0.25  # seconds between the first write and the signal
WRITER = """
import hashlib, os, sys
from coupledgp.ground.output import write_bytes
k = 0
while True:
    for name in sys.argv[1:]:
        content = os.urandom(1) * (200_000 + 40_000 * (k % 5))
        write_bytes(name, hashlib.sha256(content).digest() + content)
        if k == 0 and name == sys.argv[-1]:
            print("writing", flush=True)
    k += 1
"""


def is_whole(path: Path) -> bool:
    """Whether a file is one that a writer has written to its end."""
    content = path.read_bytes()
    return len(content) > 32 and hashlib.sha256(content[32:]).digest() == content[:32]


def run_rounds(n_rounds: int, seed: int, folder: Path) -> list[str]:
    """Run rounds in a folder and return what went wrong."""
    rng, faults = random.Random(seed), []
    for number in range(n_rounds):
        number_of_signal, delay = rng.choice(SIGNALS), rng.uniform(0, LONGEST)
        with subprocess.Popen(
            [sys.executable, "-c", WRITER, *NAMES], cwd=folder, stdout=subprocess.PIPE
        ) as process:
            assert process.stdout is not None
            process.stdout.readline()
            time.sleep(delay)
            process.send_signal(number_of_signal)
        where = f"round {number}, {number_of_signal.name} after {delay:.3f} s"
        faults += [f"{where}: {name} is torn" for name in NAMES if not is_whole(folder / name)]
        if number_of_signal == signal.SIGKILL:
            for name in NAMES:
                write_bytes(folder / name, hashlib.sha256(b"x").digest() + b"x")
        faults += [f"{where}: {name} is left" for name in os.listdir(folder) if PREFIX in name]
    return faults


def main() -> int:
    """Run rounds in a temporary folder and return the exit code."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("rounds", type=int)
    parser.add_argument("--seed", type=int, default=1)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        faults = run_rounds(given.rounds, given.seed, Path(folder))
    print(*faults, f"{given.rounds} rounds, {len(faults)} faults", sep="\n")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
