"""Stores the runs of each part in `bench/report/runs/PART.json`, after each run. A later failure therefore loses nothing."""
import json
import os
import time

from . import machine
from .settings import BUILDS, REPORT, BenchError

RUNS = REPORT / "runs"


class Part:
    """The measurements of one part of the benchmark. A new object replaces the part's earlier measurements."""

    def __init__(self, name, settings, tuned):
        self.name = name
        self.kept = {"part": name, "quick": settings.quick, "rounds": settings.rounds, "commit": machine.commit(), "built": BUILDS,
                     "machine": machine.describe(), "tuned": tuned,
                     "begun": time.time(), "load_at_begin": os.getloadavg(), "runs": [], "missing": [], "remarks": []}
        self.keep()

    def keep(self):
        RUNS.mkdir(parents=True, exist_ok=True)
        self.kept |= {"ended": time.time(), "load_at_end": os.getloadavg()}
        path = RUNS / f"{self.name}.json"
        path.with_suffix(".new").write_text(json.dumps(self.kept, indent=1))
        path.with_suffix(".new").rename(path)

    def add(self, row, server, value, figures, remarks=()):
        """Adds a run: its row in the report, its server, the value of the row, all figures, and the reasons why the run is not clean."""
        self.kept["runs"].append({"row": row, "server": server, "value": value, "remarks": list(remarks), "figures": figures})
        self.keep()
        unclean = f"  NOT CLEAN: {', '.join(remarks)}" if remarks else ""
        print(f"{self.name:<12} {row:<18} {server:<12} {value:>12,.2f}{unclean}", flush=True)

    def remark(self, text):
        """Adds a remark on this part to the report."""
        self.kept["remarks"].append(text)
        self.keep()
        print(f"{self.name:<12} {text}", flush=True)

    def attempt(self, what, measure, *arguments):
        """Measures. An error is recorded as a missing figure, and the benchmark continues."""
        try:
            return measure(*arguments)
        except (BenchError, OSError, ValueError, KeyError, TypeError) as error:
            text = str(error) if isinstance(error, (BenchError, OSError)) else f"{type(error).__name__}: {error}"
            self.kept["missing"].append(text if what == self.name else f"{what}: {text}")
            self.keep()
            print(f"{self.name:<12} {what} is missing: {text}", flush=True)
            return None

    def runs(self, row, server):
        return [run for run in self.kept["runs"] if (run["row"], run["server"]) == (row, server)]


def read():
    """All measured parts, in the order of their measurement."""
    parts = [json.loads(path.read_text()) for path in RUNS.glob("*.json")]
    return sorted(parts, key=lambda part: part["begun"])
