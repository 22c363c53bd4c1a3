"""Tandem as configured for large runs: subscribers, locations, dialogs and records in one database, and records in a file, too."""
import json
import subprocess
import time

from .. import servers
from ..servers import ADMIN, DOMAIN, LIMITS, TANDEM
from ..settings import BenchError, on_core, program

# A million subscribers are read before the server is ready.
START_WITHIN = 300


class Tandem(servers.Server):
    """A server on one processor with one worker. `subscribers` is the number of phones that register. `more` are further sections of its
    configuration."""

    def __init__(self, settings, database, subscribers, more=""):
        self.config = settings.folder / "large.toml"
        self.records = settings.folder / "calls.jsonl"
        self.records.unlink(missing_ok=True)
        self.config.write_text(configuration(settings.server_core, database.url, self.records, subscribers) + more)
        command = on_core(settings.server_core, [program("tandem"), "serve", "--config", str(self.config)])
        super().__init__("tandem", command, settings.folder, TANDEM, servers.tandem_says_ready, start_within=START_WITHIN)


def configuration(core, url, records, subscribers):
    sizes = f"[limits]\nbindings = {max(1_000_000, 2 * subscribers)}\npending_changes = {max(200_000, subscribers)}\n"
    limits = LIMITS.replace("[limits]\n", sizes)
    return f"""domains = ["{DOMAIN}"]
[[listen]]
transport = "udp"
address = "127.0.0.1:{TANDEM}"
[workers]
count = 1
pin = [{core}]
{limits}[database]
url = "{url}"
[auth]
challenge = ["REGISTER", "INVITE"]
algorithms = ["MD5"]
cache_size = {max(500_000, subscribers + subscribers // 4)}
[dialogs]
persist = true
[records]
file = "{records}"
database = true
[admin]
listen = "{ADMIN}"
"""


def add_subscribers(settings, database, first, count, user="user{}"):
    """Imports the subscribers user0, user1, … from this number on. Returns the seconds that it takes. `user` is another format of their names."""
    lines, config = settings.folder / "subscribers.csv", settings.folder / "import.toml"
    with open(lines, "w") as file:
        file.writelines(f"{user.format(number)},{DOMAIN},password{number}\n" for number in range(first, first + count))
    config.write_text(f'domains = {json.dumps([DOMAIN])}\n[database]\nurl = "{database.url}"\n')
    begun = time.monotonic()
    command = [program("tandem"), "user", "import", "--config", str(config), str(lines)]
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    lines.unlink()
    if done.returncode:
        raise BenchError(f"importing the subscribers failed: {done.stdout.strip().splitlines()[-1:]}")
    return time.monotonic() - begun
