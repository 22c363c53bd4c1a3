"""What the servers need to send calls to gateways (W5 to W6): the gateways, 300,000 prefixes, and the policy of Tandem.

The gateways are three addresses of the generator, which answers what comes to any of its addresses. The phones have telephone numbers. For an edge,
the gateways are its nodes. It recognises nodes by their address, so phones must have other ones: with fewer phones than addresses, the last
addresses have no phone.
"""
PORT = 15090
ADDRESSES = [f"127.1.255.{number}:{PORT}" for number in (1, 2, 3)]
GATEWAYS = [f"sip:{address}" for address in ADDRESSES]
# Phones have the addresses from 127.1.0.0 on.
PHONES_BEFORE_NODES = 65_000
# Options of the generator.
USERS = "4930{:07}"
PHONES = ("--first-port", str(PORT), "--user", USERS, "--registered")
PREFIXES = 300_000
# The first eight digits of the numbers of the phones, of which there are 100,000 at most.
OWN = [f"493000{number:02}" for number in range(100)]

GROUP = """[[group]]
name = "carriers"
members = ["carrier-1", "carrier-2", "carrier-3"]
"""
# Each limit is checked and counted, and none is reached.
BORDER = """[call_limits]
max_calls = 1000000
calls_per_second = 100000
source_max_calls = 1000000
source_calls_per_second = 100000
[[rule]]
name = "calls"
method = ["INVITE"]
source = ["127.0.0.0/8"]
action = "prefixes"
prefixes = "default"
"""
BALANCER = """[[rule]]
name = "all"
source = ["127.0.0.0/8"]
authenticate = "trust"
action = "balance"
group = "carriers"
"""


def prefixes(count):
    """So many different prefixes of two to eight digits, in blocks of ten neighbours, as in number plans; the blocks are in no order. A number of a
    phone matches three of them."""
    yield from ("49", "4930", *OWN)
    left, number = count - 2 - len(OWN), 0
    while left:
        number += 1
        block = str(1_000_000 + number * 2_654_435_761 % 9_000_000)
        if not block.startswith("4930"):
            neighbours = range(min(10, left))
            left -= len(neighbours)
            yield from (f"{block}{digit}" for digit in neighbours)


def border(folder, count=PREFIXES, authenticate="trust"):
    """The configuration of Tandem for W6. `authenticate` is that of the rule."""
    file = folder / f"prefixes-{count}.csv"
    if not file.exists():
        file.write_text("prefix,groups\n" + "".join(f"{prefix},carriers\n" for prefix in prefixes(count)))
    return f'[prefixes]\nsource = "file"\nfile = "{file}"\n{gateways()}{GROUP}{BORDER}authenticate = "{authenticate}"\n'


def balancer(_):
    """The configuration of Tandem for W5r."""
    return gateways() + GROUP + BALANCER


def nodes():
    """The nodes of the edge, for W5 and W5c."""
    declared = enumerate(ADDRESSES, 1)
    return "".join(f'[[member]]\ninstance = "carrier-{number}"\naddress = "{address}"\ntcp = false\n' for number, address in declared)


def gateways():
    declared = enumerate(GATEWAYS, 1)
    return "".join(f'[[gateway]]\nname = "carrier-{number}"\ndestination = "{uri}"\n' for number, uri in declared)


def write_for_kamailio(folder, count=PREFIXES):
    """The list of dispatcher, and the table of mtree in the format of db_text. Returns the folder of the table."""
    (folder / "dispatcher.list").write_text("".join(f"1 {uri}\n" for uri in GATEWAYS))
    tables = folder / f"tables-{count}"
    if tables.exists():
        return tables
    tables.mkdir()
    (tables / "version").write_text("table_name(string) table_version(int)\nmtree:1\n")
    rows = "".join(f"{number}:{prefix}:1\n" for number, prefix in enumerate(prefixes(count), 1))
    (tables / "mtree").write_text("id(int,auto) tprefix(string) tvalue(string)\n" + rows)
    return tables
