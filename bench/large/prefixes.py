"""The prefix table of the SBC run: one prefix for each number that is called, and prefixes of other countries up to the number that is asked for.
With SQLite it comes from a CSV file, with PostgreSQL from a table."""
from ..settings import BenchError

# Called numbers are this and nine digits.
COUNTRY = "49"
TABLE = "prefix_route"


class Prefixes:
    """The prefixes of `numbers` called numbers, `size` in all."""

    def __init__(self, settings, database, size, numbers):
        if size < numbers + 1:
            raise BenchError(f"--prefixes {size}: there are {numbers:,} called numbers, and each has a prefix")
        self.database, self.size, self.numbers = database, size, numbers
        self.is_file = database.name == "sqlite"
        self.file = settings.folder / "prefixes.csv"

    @property
    def section(self):
        """The section of the configuration."""
        source = f'source = "file"\nfile = "{self.file}"' if self.is_file else f'source = "database"\ntable = "{TABLE}"'
        return f"[prefixes]\n{source}\n"

    def write(self, group):
        """Replaces all prefixes. The called numbers lead to this group."""
        if self.is_file:
            self.write_file(group)
        else:
            self.write_table(group)

    def write_file(self, group):
        with open(self.file, "w") as file:
            file.write("prefix,groups\ndefault,carriers\n")
            file.writelines(f"{COUNTRY}{number:09},{group}\n" for number in range(self.numbers))
            file.writelines(f"1{number:07},carriers;carriers-2\n" for number in range(self.size - self.numbers - 1))

    def write_table(self, group):
        others = self.size - self.numbers - 1
        self.database.execute(
            f"CREATE TABLE IF NOT EXISTS {TABLE} (prefix text PRIMARY KEY, groups text NOT NULL); TRUNCATE {TABLE};"
            f"INSERT INTO {TABLE} VALUES ('default', 'carriers');"
            f"INSERT INTO {TABLE} SELECT '{COUNTRY}' || lpad(n::text, 9, '0'), '{group}' FROM generate_series(0, {self.numbers - 1}) n;"
            f"INSERT INTO {TABLE} SELECT '1' || lpad(n::text, 7, '0'), 'carriers;carriers-2' FROM generate_series(0, {others - 1}) n")
