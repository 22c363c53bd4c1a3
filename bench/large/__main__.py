"""`scripts/capacity`: large runs of Tandem alone. Prints the figures, and keeps them with all samples in bench/report/large."""
import argparse
import dataclasses
import json
import signal
import sys
import tempfile

from .. import machine
from ..arguments import Parser, some_of, whole
from ..capacity import ADDRESSES
from ..settings import REPORT, BenchError, build, settings_of
from ..workloads import APART
from . import calls, fleet, provider, sbc, tables

KEPT = REPORT / "large"
# Steps with calls: the database, and what happens in the middle.
CALLS = {
    "calls-postgres": ("postgres", ""),
    "calls-sqlite": ("sqlite", ""),
    "restart-postgres": ("postgres", "restart"),
    "kill-postgres": ("postgres", "kill"),
    "kill-sqlite": ("sqlite", "kill"),
}
SBC = {"sbc-postgres": "postgres", "sbc-sqlite": "sqlite"}
STEPS = (*CALLS, *SBC, "provider", "fleet")
USAGE = """Steps: calls-DATABASE sets up the calls, holds them and ends them. restart-postgres restarts PostgreSQL while calls are set up. kill-DATABASE
kills the server while all calls are up, and starts it again. sbc-DATABASE sets up the calls through a rule, prefixes, limits and three gateways.
Meanwhile gateways fail, the prefixes are replaced, PostgreSQL restarts, and the server is killed and starts again. provider makes the traffic of
all subscribers, or the largest share that holds. fleet starts a second node when the first one has all bindings, measures how late changes are at
the other node, and cuts one off from Redis. Without a step, all run: about 50 minutes on two cores, or 4.5 minutes for each step with calls, 6 for
each share and number of subscribers, and 5 for the fleet.
BENCH_NO_BUILD=1 measures target/pgo without building it, BENCH_BINARIES=FOLDER the programs of another folder."""


def fraction(text):
    try:
        top, _, bottom = text.partition("/")
        return float(top) / float(bottom or 1)
    except (ValueError, ZeroDivisionError):
        raise argparse.ArgumentTypeError(f"{text} is not a fraction such as 1/4 or 0.25") from None


def list_of(kind):
    return lambda text: [kind(word) for word in text.split(",")]


def arguments_of(words):
    parser = Parser(prog="scripts/capacity", description=__doc__, epilog=USAGE, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("steps", nargs="*", metavar="STEP")
    parser.add_argument("--calls", type=whole, default=60_000, help="calls at a time (60000)")
    parser.add_argument("--rate", type=whole, default=1_000, help="new calls per second (1000)")
    parser.add_argument("--hold", type=whole, default=50, metavar="SECONDS", help="how long all calls are up; transactions need 45 to end (50)")
    parser.add_argument("--away", type=float, default=2.0, metavar="SECONDS", help="how long PostgreSQL is away (2)")
    parser.add_argument("--kill-after", type=float, default=3.0, metavar="SECONDS",
                        help="time from the last answer to the kill (3); with 0, the last calls may not be saved")
    parser.add_argument("--prefixes", type=whole, default=300_000, metavar="N", help="of the SBC run (300000)")
    parser.add_argument("--events", type=some_of(sbc.EVENTS), default=sbc.EVENTS, metavar="EVENT,…", help=f"of the SBC run ({','.join(sbc.EVENTS)})")
    parser.add_argument("--subscribers", type=list_of(whole), default=[500_000, 1_000_000], metavar="N,…", help="of the provider (500000,1000000)")
    parser.add_argument("--shares", type=list_of(fraction), default=[1, 0.5, 0.25, 0.125], metavar="SHARE,…",
                        help="of the provider's traffic, tried from the largest to the first that holds (1,1/2,1/4,1/8)")
    parser.add_argument("--bindings", type=whole, default=1_000_000, help="of the fleet (1000000)")
    parser.add_argument("--partition", type=whole, default=fleet.PARTITION, metavar="SECONDS", help=f"how long a node of the fleet is cut off ({fleet.PARTITION})")
    parser.add_argument("--seconds", type=whole, default=60, help="duration of the provider's traffic (60)")
    parser.add_argument("--busy-poll", action="store_true", help="let the provider's phones poll their socket, and give them 65,535 addresses")
    arguments = parser.parse_args(words)
    unknown = [step for step in arguments.steps if step not in STEPS]
    if unknown:
        parser.error(f"unknown step {unknown[0]!r}: choose from {', '.join(STEPS)}")
    return arguments


def keep(name, figures, problems):
    KEPT.mkdir(parents=True, exist_ok=True)
    kept = figures | {"problems": problems, "commit": machine.commit(), "machine": machine.describe()}
    (KEPT / f"{name}.json").write_text(json.dumps(kept, indent=1))


def with_calls(settings, shape, step):
    """Runs a step with calls. Returns whether all is as required."""
    figures = calls.run(settings, shape, *CALLS[step])
    problems = calls.problems(shape, figures)
    keep(step, figures | {"shape": dataclasses.asdict(shape)}, problems)
    tables.show(f"{step}: {shape.calls:,} calls, {shape.rate:,} per second, held for {shape.hold} s", tables.of_calls(figures), problems)
    return not problems


def with_sbc(settings, shape, step, arguments):
    """Runs the SBC run. Returns whether all is as required."""
    figures = sbc.run(settings, shape, SBC[step], arguments.prefixes, arguments.events)
    problems = sbc.problems(shape, figures)
    keep(step, figures | {"shape": dataclasses.asdict(shape), "prefixes": arguments.prefixes}, problems)
    tables.show(f"{step}: {shape.calls:,} calls, {shape.rate:,} per second, held for {shape.hold} s", tables.of_sbc(figures), problems)
    return not problems


def run_step(settings, shape, step, arguments):
    if step in CALLS:
        return with_calls(settings, shape, step)
    if step in SBC:
        return with_sbc(settings, shape, step, arguments)
    if step == "fleet":
        return with_fleet(settings, arguments)
    return with_provider(settings, arguments)


def with_fleet(settings, arguments):
    """Runs two nodes with shared bindings. Returns whether all is as required."""
    figures = fleet.run(settings, arguments.bindings, arguments.partition)
    problems = fleet.problems(figures)
    keep(f"fleet-{arguments.bindings}", figures, problems)
    tables.show(f"fleet: {arguments.bindings:,} bindings of two nodes", tables.of_fleet(figures), problems)
    return not problems


def with_provider(settings, arguments):
    """Runs all shares that are needed. Returns whether one holds for each number of subscribers."""
    phones = ["--busy-poll", *APART] if arguments.busy_poll else ADDRESSES
    held = set()
    for figures in provider.run(settings, arguments.subscribers, arguments.shares, arguments.seconds, phones):
        problems, size, share = provider.problems(figures), figures["subscribers"], figures["share"]
        keep(f"provider-{size}-{share:g}", figures, problems)
        tables.show(f"provider: {size:,} subscribers, {share:g} of their traffic", tables.of_provider(figures), problems)
        if not problems:
            held.add(size)
    return held == set(arguments.subscribers)


def main(words):
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    arguments = arguments_of(words)
    build()
    shape = calls.Shape(arguments.calls, arguments.rate, arguments.hold, arguments.away, arguments.kill_after)
    well = True
    for step in arguments.steps or STEPS:
        with tempfile.TemporaryDirectory(prefix="tandem-capacity-") as folder:
            settings = settings_of(folder)
            try:
                is_well = run_step(settings, shape, step, arguments)
            except BenchError as error:
                print(f"\n{step} failed: {error}", file=sys.stderr, flush=True)
                is_well = False
        well = well and is_well
    return 0 if well else 1


try:
    sys.exit(main(sys.argv[1:]))
except BenchError as error:
    print(f"scripts/capacity: {error}", file=sys.stderr)
    sys.exit(1)
except KeyboardInterrupt:
    print("scripts/capacity: interrupted", file=sys.stderr)
    sys.exit(130)
