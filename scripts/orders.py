#!/usr/bin/env python3
"""How many seeds find planted races, in each order in which the tasks of a node can be polled. Prints a
table.

    scripts/orders.py MUTANT...     names of patches in sim/mutants

`cargo xtask mutants` builds the program with the bugs. SEEDS, 500 unless set, is how many seeds each mutant
meets in each order: the same ones, which `retrial-sim` makes of the commit's digest. The median is how many
seeds it takes until one fails, if so many of them fail.
"""

import json
import math
import os
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
FOLDER = ROOT / "target/mutants"
SEEDS = int(os.environ.get("SEEDS", 500))
ORDERS = ["any", "lasting", "anew"]


def failing(number, order, text):
    """How many of the seeds fail."""
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder) / "report.json"
        asked = ["run", "--seeds", f"{SEEDS}@{text}", "--order", order, "--json", report]
        ran = subprocess.run(
            [FOLDER / "retrial-sim", *asked],
            env={**os.environ, "RETRIAL_PLANTED": number},
            stdout=subprocess.DEVNULL,
            check=False,
        )
        if not report.exists():
            sys.exit(f"the sweep ended with {ran.returncode}")
        return len(json.loads(report.read_text())["failing"])


def shown(found):
    """How many fail, and the median of how many seeds it takes until one does."""
    if found == 0:
        return "0 | -"
    rate = found / SEEDS
    return f"{found} | {1 if rate == 1 else math.ceil(-1 / math.log2(1 - rate))}"


def main(mutants):
    numbers = dict(reversed(line.split()) for line in (FOLDER / "numbers").read_text().splitlines())
    text = subprocess.run(
        ["git", "rev-parse", "HEAD"], cwd=ROOT, stdout=subprocess.PIPE, text=True, check=True
    ).stdout.strip()
    print("| mutant |" + "".join(f" {order}: failing | median |" for order in ORDERS))
    print("| --- |" + " --- | --- |" * len(ORDERS), flush=True)
    total = [0] * len(ORDERS)
    for mutant in mutants:
        found = [failing(numbers[mutant], order, text) for order in ORDERS]
        total = [before + now for before, now in zip(total, found)]
        print(f"| `{mutant}` | " + " | ".join(shown(one) for one in found) + " |", flush=True)
    print("| all | " + " | ".join(f"{one} |" for one in total) + " |")


if __name__ == "__main__":
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    main(sys.argv[1:])
