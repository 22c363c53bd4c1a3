"""Parses the command line. Errors fit on one line."""
import argparse
import sys


class Parser(argparse.ArgumentParser):
    """Reports an error on one line, without the usage text."""

    def error(self, message):
        print(f"{self.prog}: {message}", file=sys.stderr)
        sys.exit(2)


def whole(text):
    number = int(text) if text.isdecimal() else 0
    if number < 1:
        raise argparse.ArgumentTypeError(f"{text} is not a whole number of at least 1")
    return number


def some_of(known):
    def names(text):
        chosen = tuple(text.split(","))
        unknown = [name for name in chosen if name not in known]
        if unknown:
            raise argparse.ArgumentTypeError(f"unknown name {unknown[0]!r}: choose from {', '.join(known)}")
        return chosen
    return names
