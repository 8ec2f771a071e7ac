"""A table of five columns, read and written as CSV, and options of a quick fit."""

import csv

import numpy as np

RNG = np.random.default_rng(7)
N = 60
A, B = RNG.normal(size=N), RNG.integers(0, 9, N)
PRICE = np.round(np.sin(2 * A) + 0.1 * RNG.normal(size=N), 4)
QUICK = ["--n-frequencies", "12", "--max-iter", "4", "--n-restarts", "0"]


def columns(n=N, **changes):
    table = {
        "a": A[:n],
        "b b": B[:n],
        "flag": B[:n] > 4,
        "fixed": np.full(n, 3),
        "price": PRICE[:n],
    }
    return {name: list(values) for name, values in (table | changes).items() if values is not None}


def write_csv(path, table, delimiter=","):
    with path.open("w", newline="") as file:
        writer = csv.writer(file, delimiter=delimiter)
        writer.writerow(table)
        writer.writerows(zip(*table.values(), strict=True))
    return str(path)


def read_csv(path, delimiter=","):
    with open(path, newline="") as file:
        rows = list(csv.reader(file, delimiter=delimiter))
    return {name: [row[k] for row in rows[1:]] for k, name in enumerate(rows[0])}


def one_bad(column, value, row):
    values = columns()[column]
    values[row] = value
    return {column: values}
