#!/usr/bin/env python3
"""How long `retrial-sim explore` looks until a world fails, with bugs planted: where all scenarios are
drawn, and where most of them are bred. Prints a table.

    scripts/bred_or_drawn.py MUTANT...     names of patches in sim/mutants

`cargo xtask mutants` builds the program with the bugs. DRAWS, 20 unless set, is how often each way looks.
WORLDS, 1000 unless set, is after how many worlds it gives up.
"""

import os
import re
import statistics
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

FOLDER = Path(__file__).resolve().parent.parent / "target/mutants"
DRAWS = int(os.environ.get("DRAWS", 20))
WORLDS = int(os.environ.get("WORLDS", 1000))
WAYS = {"drawn": 0, "bred": 75}


def look(number, bred, chance):
    """The worlds until the first failed, none if all held, and the seconds of processor time."""
    asked = f"explore --for 10h --worlds {WORLDS} --until-failure --jobs 1".split()
    child = subprocess.Popen(
        [FOLDER / "retrial-sim", *asked, "--bred", str(bred), "--chance", str(chance)],
        env={**os.environ, "RETRIAL_PLANTED": number},
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    printed = child.stdout.read()
    _, status, used = os.wait4(child.pid, 0)
    child.returncode = os.waitstatus_to_exitcode(status)
    if child.returncode not in (0, 1):
        sys.exit(f"explore ended with {child.returncode}")
    failed = re.search(r"^first to fail +(\d+)", printed, re.MULTILINE)
    return failed and int(failed[1]), used.ru_utime + used.ru_stime


def median(values):
    """The middle one, where those that found nothing come last."""
    middle = statistics.median_high(value if value is not None else float("inf") for value in values)
    return "-" if middle == float("inf") else f"{middle:.0f}"


def main(mutants):
    numbers = dict(reversed(line.split()) for line in (FOLDER / "numbers").read_text().splitlines())
    print("| mutant | drawn: found | worlds | seconds | bred: found | worlds | seconds |")
    print("| --- | --- | --- | --- | --- | --- | --- |", flush=True)
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        for mutant in mutants:
            cells = [f"`{mutant}`"]
            for bred in WAYS.values():
                looks = [pool.submit(look, numbers[mutant], bred, chance) for chance in range(DRAWS)]
                worlds, seconds = zip(*(look.result() for look in looks))
                found = [used if failed else None for failed, used in zip(worlds, seconds)]
                cells += [f"{DRAWS - worlds.count(None)} of {DRAWS}", median(worlds), median(found)]
            print("| " + " | ".join(cells) + " |", flush=True)


if __name__ == "__main__":
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    main(sys.argv[1:])
