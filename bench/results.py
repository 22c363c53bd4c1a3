"""The runs of each part, kept in `bench/report/runs/PART.json` and written after each run: what fails later loses nothing."""
import json
import os
import time

from . import machine
from .settings import BUILDS, REPORT, BenchError

RUNS = REPORT / "runs"


class Part:
    """What a part of the benchmark measured. A new one takes the place of what the part measured before."""

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
        """A run: its row in the report, its server, the figure that counts, all figures, and why it is not clean, if so."""
        self.kept["runs"].append({"row": row, "server": server, "value": value, "remarks": list(remarks), "figures": figures})
        self.keep()
        unclean = f"  NOT CLEAN: {', '.join(remarks)}" if remarks else ""
        print(f"{self.name:<12} {row:<18} {server:<12} {value:>12,.2f}{unclean}", flush=True)

    def remark(self, text):
        """Something that the report must say of this part."""
        self.kept["remarks"].append(text)
        self.keep()
        print(f"{self.name:<12} {text}", flush=True)

    def attempt(self, what, measure, *arguments):
        """Measures; what keeps it from being measured is written down, and the rest goes on."""
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
    """All parts that were measured, in the order in which they were."""
    parts = [json.loads(path.read_text()) for path in RUNS.glob("*.json")]
    return sorted(parts, key=lambda part: part["begun"])
