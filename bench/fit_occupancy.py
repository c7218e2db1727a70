#!/usr/bin/env python3
"""Fits each job's occupancy to measured pairs of jobs on one GPU.

Usage: bench/fit_occupancy.py PAIRS.csv [GPU_TYPE]

PAIRS.csv has the columns gpu_type, job_a, job_b, norm_a, norm_b: the throughput of each job beside the other, as a share
of its throughput alone (from stanford-futuredata/gavel's measurements). The simulator's model says that two jobs of
occupancies a and b each run at 1 / max(1, a + b), so that together they reach 2 / max(1, a + b). Coordinate descent over
all pairs finds the occupancies in (0, 1] with the least squared error. src/sim/workloads.cpp uses those for p100.
"""

import csv
import sys


def read_pairs(path, gpu_type):
    with open(path, newline="") as file:
        for row in csv.DictReader(file):
            norm_a, norm_b = float(row["norm_a"]), float(row["norm_b"])
            if row["gpu_type"] == gpu_type and norm_a > 0 and norm_b > 0:  # 0: the pair did not fit into memory
                yield row["job_a"], row["job_b"], norm_a + norm_b


def fit(pairs):
    occupancy = {job: 0.9 for pair in pairs for job in pair[:2]}

    def error(pair, trial):
        a, b, together = pair
        return (together - 2 / max(1.0, trial.get(a, occupancy[a]) + trial.get(b, occupancy[b]))) ** 2

    steps = [i / 200 for i in range(20, 201)]
    for _ in range(30):
        for job in occupancy:
            own = [pair for pair in pairs if job in pair[:2]]
            occupancy[job] = min(steps, key=lambda x: sum(error(pair, {job: x}) for pair in own))
    rmse = (sum(error(pair, {}) for pair in pairs) / len(pairs)) ** 0.5
    return occupancy, rmse


def main():
    if len(sys.argv) not in (2, 3):
        sys.exit(__doc__.strip().splitlines()[2])
    gpu_type = sys.argv[2] if len(sys.argv) == 3 else "p100"
    pairs = list(read_pairs(sys.argv[1], gpu_type))
    if not pairs:
        sys.exit(f"no pairs of {gpu_type} in {sys.argv[1]}")
    occupancy, rmse = fit(pairs)
    for job in sorted(occupancy):
        print(f"{occupancy[job]:.3f}  {job}")
    print(f"{len(pairs)} pairs, root mean square error {rmse:.3f}")


if __name__ == "__main__":
    main()
