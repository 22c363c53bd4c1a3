"""Prints the figures of large runs, one line for each subject."""
from . import calls, fleet, provider, sbc


def megabytes(size):
    return f"{size / 1e6:,.1f} MB"


def share(busy):
    """Processors busy, in percent of one."""
    return "-" if busy is None else f"{100 * busy:.0f} %"


def milliseconds(delays):
    return f"p50 {delays['p50'] / 1e3:,.2f} ms, p99 {delays['p99'] / 1e3:,.2f} ms, max {delays['max'] / 1e3:,.1f} ms"


def delays(report, names):
    for title, name in names.items():
        if name in report["delays"]:
            yield title, milliseconds(report["delays"][name])


def generator(report):
    """The generator's own headroom."""
    lost = report["losses"]
    lateness = milliseconds(report["delays"]["lateness"]) if "lateness" in report["delays"] else "-"
    yield "generator", (f"busy {100 * report['generator_busy']:.0f} %, {report['generator_cpu_us_per_unit']:.1f} CPU-us per unit, "
                        f"{lost['kernel_drops']:,} datagrams dropped, {lost['not_sent']:,} not sent")
    yield "generator late by", lateness


def of_calls(figures):
    """The lines of a run with many calls."""
    report, memory, bytes_each, most = figures["generator"], figures["memory"], figures["dialog_bytes"], figures["most"]
    ends, records, killed = report["units"]["calls"], figures["records"], figures["event"].get("killed")
    yield "calls", f"{ends['attempted']:,} begun, {ends['succeeded']:,} succeeded, {ends['failed']:,} failed, {report['unfinished']:,} did not end"
    yield "retransmissions", (f"{report['retransmissions_sent']:,} of the phones, {figures['retransmitted']:,.0f} of the server, "
                              f"{report['retransmissions_received']:,} duplicates at the phones")
    yield from delays(report, {"due to 200": "due_to_answer", "BYE to 200": "session_disconnect_delay"})
    if "database_away" in figures["event"]:
        yield "database away", f"{figures['event']['database_away']:.1f} s"
    if killed:
        yield "killed", f"with {killed['known']:,.0f} dialogs, {killed['unsaved']:,.0f} of them changed since the last save"
        yield "started again", f"ready after {killed['ready_after']:.2f} s with {killed['restored']:,.0f} dialogs and {megabytes(killed['memory'])}"
    yield "at the top", f"{figures['dialogs_at_top'] or 0:,.0f} dialogs, {figures['rows_at_top']:,} rows in the database"
    yield "resident memory", f"{megabytes(memory['before'])} before, {megabytes(memory['top'])} at the top, {megabytes(memory['after'])} after"
    names = {"from_before": "from before to top", "from_after": "from top to after", "slope": f"by the slope from {calls.EVEN} s on"}
    yield "bytes per dialog", ", ".join(f"{bytes_each[name]:,.0f} {said}" for name, said in names.items() if bytes_each[name] is not None)
    for title, name in (("server CPU", "cpu"), ("database CPU", "database_cpu")):
        up, down = figures["busy"][name]
        yield title, f"{share(up)} while calls begin, {share(down)} while they end"
    yield "highest", (f"{most['dialogs_unsaved']:,.0f} dialogs not saved, {most['dialogs_lag']:.1f} s behind, {most['records_waiting']:,.0f} records waiting, "
                      f"{most['save_failures']:,.0f} failed saves, {most['kernel_drops']:,.0f} datagrams dropped")
    yield "records", (f"{records['lines']:,} of {records['calls']:,} calls in the file, {records['rows']:,} in the database, "
                      f"{figures['records_lost']:,.0f} lost; ended by {records['ended_by']}")
    yield "zero after last BYE", ", ".join(f"{name} {'never' if at is None else f'{at:.1f} s'}" for name, at in figures["zero"].items())
    yield from generator(report)


def of_sbc(figures):
    """The lines of the SBC run."""
    report, seen, records, most = figures["generator"], figures["seen"], figures["records"], figures["most"]
    ends, top = report["units"]["calls"], seen["top"]
    yield "calls", f"{ends['attempted']:,} begun, {ends['succeeded']:,} succeeded, {ends['failed']:,} failed, {report['unfinished']:,} did not end"
    yield from events_of_sbc(figures)
    yield "at the top", (f"{top['server']['confirmed']:,.0f} dialogs, {top['rows']:,} rows, {top['server']['gateway_calls']:,.0f} calls of gateways; limits "
                         + ", ".join(f"{name} {live:,}" for name, live in top["limits"].items()))
    for number, name in enumerate(sbc.NAMES):
        lives, counts = [life[name] for life in figures["lives"]], figures["counts"][number]
        sums = {what: sum(life[what] for life in lives) for what in ("tried", "timeouts", "transport_errors", "probes_sent", "probes_answered")}
        yield name, (f"tried {sums['tried']:,}, {sums['timeouts']:,} timeouts, {sums['transport_errors']:,} transport errors; answered "
                     f"{' + '.join(format(life['answered'], ',') for life in lives)}, itself counted {counts['answered']:,}, of them "
                     f"{figures['answered_before'][number]:,} before the kill; probes {sums['probes_sent']:,}, answered {sums['probes_answered']:,}")
    yield "retransmissions", f"{report['retransmissions_sent']:,} of the phones, {figures['retransmitted']:,.0f} of the server"
    yield from delays(report, {"due to 200": "due_to_answer", "BYE to 200": "session_disconnect_delay"})
    yield "resident memory", f"{megabytes(figures['memory']['top'])} at the top, {megabytes(figures['memory']['after'])} after"
    for title, name in (("server CPU", "cpu"), ("database CPU", "database_cpu")):
        up, down = figures["busy"][name]
        yield title, f"{share(up)} while calls begin, {share(down)} while they end"
    yield "highest", (f"{most['dialogs_unsaved']:,.0f} dialogs not saved, {most['dialogs_lag']:.1f} s behind, {most['records_waiting']:,.0f} records waiting, "
                      f"{most['save_failures']:,.0f} failed saves, {most['kernel_drops']:,.0f} datagrams dropped")
    yield "records", (f"{records['lines']:,} of {records['calls']:,} calls in the file, {records['rows']:,} in the database, "
                      f"{figures['records_lost']:,.0f} lost; ended by {records['ended_by']}")
    yield "zero after last BYE", ", ".join(f"{name} {'never' if at is None else f'{at:.1f} s'}" for name, at in figures["zero"].items())
    yield from generator(report)
    yield "gateways", f"busy {100 * seen['gateways_busy']:.0f} %, on the processor of the generator"


def events_of_sbc(figures):
    """What happened in the middle, with the seconds since the first call."""
    seen = figures["seen"]
    for event in seen.get("gateways", ()):
        yield f"{event['at']:.1f} s", f"{event['gateway']} is {event['does']}"
    if "reload" in seen:
        reload = seen["reload"]
        slow = [second["p99_us"] or 0 for second in figures["generator"]["timeline"] if abs(second["time"] - reload["at"]) <= 2]
        yield f"{reload['at']:.1f} s", (f"{reload['prefixes']:,} prefixes replaced in {reload['seconds']:.2f} s; highest p99 of the delay of calls in a second: "
                                        f"{max(slow, default=0) / 1e3:,.1f} ms")
    if "database" in seen:
        yield f"{seen['database']['at']:.1f} s", f"database away for {seen['database']['away']:.1f} s"
    if "killed" in seen:
        killed = seen["killed"]
        yield f"{killed['at']:.1f} s", (f"killed with {killed['known']:,.0f} dialogs, {killed['unsaved']:,.0f} of them not saved; ready {killed['ready_after']:.2f} s "
                                        f"after its start with {killed['restored']:,} dialogs; {killed['lost']:,} calls not known any more")


def of_fleet(figures):
    """The lines of two nodes with shared bindings."""
    memory, lag, metric = figures["memory"], figures["lag"], figures["lag"]["metric"]
    yield "second node", f"ready after {figures['ready_after']:.1f} s with {figures['counted']:,.0f} bindings"
    yield "resident memory", ", ".join(f"{name} {megabytes(size)}" for name, size in memory.items())
    yield f"{fleet.RATE:,} REGISTER/s", f"{lag['failed']:,} failed"
    yield "seen at the other node after", ", ".join(f"{name} {lag['seen'][name]:.1f} ms" for name in ("p50", "p99", "max")) + f" ({lag['samples']} samples)"
    yield "back from the store after", f"p50 {metric['p50']:g} ms, p99 {metric['p99']:g} ms at most ({metric['count']:,} changes)"
    yield "partition", (f"{figures['partition']} s; {figures['changes']:,} changes at each node in {figures['changed_in']:.1f} s; then "
                        f"{figures['apart']['node-a']:,.0f} and {figures['apart']['node-b']:,.0f} bindings")
    yield "healed", f"equal after {figures['agreed_after']:.2f} s with {figures['registered']['a']:,.0f} bindings; {figures['differing']:,} wrong"


def of_provider(figures):
    """The lines of a run with the traffic of a provider."""
    report, memory, registered, imported = (figures[name] for name in ("generator", "memory", "registered", "imported"))
    yield "import", f"{imported['subscribers']:,} subscribers in {imported['seconds']:.0f} s"
    yield "ready", f"after {figures['ready_after']:.1f} s with {megabytes(memory['subscribers_read'])}"
    yield "registered", f"{registered['phones']:,} phones in {registered['seconds']:.0f} s, {registered['put_off']:,} answers 503"
    for kind, ends in report["units"].items():
        rate = ends["attempted"] / report["seconds"]
        yield kind, f"{rate:,.1f} per second, {ends['succeeded']:,} succeeded, {ends['failed']:,} failed, {ends['skipped']:,} skipped"
    yield from delays(report, {f"delay of {kind}": name for kind, name in provider.DELAYS.items()})
    yield "retransmissions", f"{report['retransmissions_sent']:,} of the phones, {figures['retransmitted']:,.0f} of the server"
    cost = report["cost"]
    yield "server CPU", f"{share(cost['busy'])}, {cost['cpu_us_per_unit']:.2f} CPU-us per unit; database {share(figures['busy']['database_cpu'])}"
    yield "memory", f"{megabytes(memory['traffic'])} (PSS), at most {megabytes(memory['peak'])} (resident)"
    yield from generator(report)


def show(title, lines, problems):
    print(f"\n{title}")
    for name, said in lines:
        print(f"  {name:<24} {said}")
    for problem in problems:
        print(f"  NOT AS REQUIRED          {problem}")
    print(end="", flush=True)
