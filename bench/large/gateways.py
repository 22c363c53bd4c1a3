"""The gateways of large runs: `tandem lab gateways`, which answer calls, count them, and fail when told to."""
import json
import subprocess

from ..servers import is_bound
from ..settings import BenchError, on_core, program
from .watch import cpu_seconds

FIRST_PORT = 5171


class Gateways:
    """Gateways that answer for the duration of a `with` block. They have the numbers 1, 2, …"""

    def __init__(self, settings, count):
        self.ports = [FIRST_PORT + number for number in range(count)]
        listen = [word for port in self.ports for word in ("--listen", f"127.0.0.1:{port}")]
        self.command = on_core(settings.client_core, [program("tandem"), "lab", "gateways", *listen])
        self.process = None

    def __enter__(self):
        for port in self.ports:
            if is_bound(port):
                raise BenchError(f"another program uses port {port}, which a gateway needs: stop that program")
        self.process = subprocess.Popen(self.command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        if self.process.stdout.readline() != "ready\n":
            raise BenchError("the gateways did not start: see their output above")
        return self

    def __exit__(self, *_):
        self.process.stdin.close()
        self.process.wait()

    def cpu(self):
        """Their CPU time in seconds."""
        return cpu_seconds(self.process.pid)

    def say(self, line):
        """Sends a line. Returns the answer."""
        self.process.stdin.write(line + "\n")
        self.process.stdin.flush()
        answer = self.process.stdout.readline().strip()
        if not answer or answer.startswith("error"):
            raise BenchError(f"the gateways did not accept {line!r}: {answer or 'they have ended'}")
        return answer

    def behave(self, number, behaviour):
        self.say(f"{number} {behaviour}")

    def counts(self):
        """What each of them has counted."""
        return json.loads(self.say("counts"))
