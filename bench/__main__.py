"""`scripts/bench`: measures the given parts, or all of them, and writes the report."""
import argparse
import os
import signal
import sys
import tempfile
import time

from . import capacity, connections, memory, overload, programs, report, scaling, workloads
from .arguments import Parser, some_of, whole
from .results import Part
from .settings import BUILDS, BenchError, build, settings_of

# Parts run in this order: the sweep selects the Kamailio that the later parts measure.
PARTS = {
    "micro": programs.messages,
    "sweep": workloads.sweep,
    **{name: lambda settings, part, name=name: workloads.run(settings, part, name) for name in workloads.WORKLOADS},
    "memory": memory.run,
    "connections": connections.run,
    "capacity": capacity.run,
    "overload": overload.run,
    "border-overload": overload.run_border,
    "stack": programs.stack,
    "generator": programs.generator,
    "analyzer": programs.analyzer,
}
# Minutes that a part takes on two cores: fixed, and per round.
MINUTES = {
    "micro": (4, 0), "sweep": (1.6, 0), "floor": (0, 0.15), "w1": (0.3, 0.5), "w2": (0.7, 1), "w2c": (0.8, 1), "w3": (0.8, 0.9), "w3d": (0.2, 0.4),
    "w4": (3, 1.1), "w4d": (0.2, 0.4), "w5": (0.3, 0.8), "w5c": (0.3, 0.8), "w5r": (0.2, 0.4), "w6": (0.4, 0.8), "memory": (4.5, 0), "connections": (0.8, 0.6), "capacity": (8.2, 2.8), "overload": (20, 0), "border-overload": (9, 0), "stack": (0.1, 0.1),
    "generator": (0, 0.2), "analyzer": (0.8, 0.1),
}
# `--before` adds the other one.
CHOSEN = tuple(name for name in workloads.SERVERS if name != "before")
USAGE = f"""Parts: {", ".join(PARTS)}.
`report` rewrites the report from the stored figures. `publish` copies the report and report.json to docs/report.
Without a part, all parts run: about 90 minutes on two cores.
`scripts/bench scaling --help` describes the measurement of several workers, which is not in the report."""


def arguments_of(words):
    parser = Parser(prog="scripts/bench", description=__doc__, epilog=USAGE, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("parts", nargs="*", metavar="PART")
    parser.add_argument("--rounds", type=whole, default=3, help="rounds of Tandem and tuned Kamailio in the short parts, and capacity searches of Tandem (3)")
    parser.add_argument("--quick", action="store_true", help="run one short round of each part as a smoke test; do not quote its figures")
    parser.add_argument("--servers", type=some_of(CHOSEN), default=(), metavar="NAME,…",
                        help=f"measure only these servers: {', '.join(CHOSEN)}")
    parser.add_argument("--loads", type=some_of(workloads.LOADS), default=workloads.LOADS, metavar="LOAD,…",
                        help=f"run the workloads only at these loads: {', '.join(workloads.LOADS)}")
    parser.add_argument("--before", default="", metavar="PROGRAM", help="also run the workloads at full load with this earlier build of tandem")
    arguments = parser.parse_args(words)
    for part in arguments.parts:
        if part not in (*PARTS, "report", "publish"):
            parser.error(f"unknown part {part!r}: choose from {', '.join(PARTS)}, report, publish, scaling")
    if "publish" in arguments.parts and len(arguments.parts) > 1:
        parser.error("publish cannot be combined with other parts: run it alone")
    return arguments


def measure(settings, names):
    """Measures parts. Returns whether all figures were measured."""
    complete = True
    if not settings.quick:
        print(f"scripts/bench: about {minutes_of(names, settings.rounds):.0f} minutes on two cores", flush=True)
    for name in names:
        part, begun = Part(name, settings, workloads.tuned()), time.monotonic()
        part.attempt(name, PARTS[name], settings, part)
        part.keep()
        print(f"{name:<12} took {(time.monotonic() - begun) / 60:.1f} minutes", flush=True)
        complete = complete and not part.kept["missing"]
    return complete


def minutes_of(names, rounds):
    """The duration of these parts at all loads with all servers."""
    return sum(once + each * rounds for once, each in map(MINUTES.get, names))


def everything():
    """All parts. The micro-benchmarks are left out if BENCH_NO_BUILD is set, because running them builds them."""
    return [name for name in PARTS if BUILDS or name != "micro"]


def main(words):
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    is_scaling = words[:1] == ["scaling"]
    arguments = scaling.arguments_of(words[1:]) if is_scaling else arguments_of(words)
    if not is_scaling and arguments.parts == ["publish"]:
        report.publish(everything())
        return 0
    complete = True
    with tempfile.TemporaryDirectory(prefix="tandem-bench-") as folder:
        if is_scaling:
            build()
            scaling.run(settings_of(folder), arguments)
            return 0
        if arguments.parts != ["report"]:
            build()
            settings = settings_of(folder, arguments.rounds, arguments.quick, arguments.loads, arguments.servers,
                                   os.path.abspath(arguments.before) if arguments.before else "")
            complete = measure(settings, [part for part in arguments.parts or everything() if part != "report"])
    report.write()
    return 0 if complete else 1


try:
    sys.exit(main(sys.argv[1:]))
except BenchError as error:
    print(f"scripts/bench: {error}", file=sys.stderr)
    sys.exit(1)
except KeyboardInterrupt:
    print("scripts/bench: interrupted; `scripts/bench report` writes a report from the figures so far", file=sys.stderr)
    sys.exit(130)
