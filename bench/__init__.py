"""What Tandem costs beside Kamailio: starts both in turns, measures, writes the report. `scripts/bench --help` says how."""
