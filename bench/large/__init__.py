"""Large runs of Tandem alone: 60,000 calls at a time, and the traffic of a million subscribers. See `scripts/capacity --help`."""
