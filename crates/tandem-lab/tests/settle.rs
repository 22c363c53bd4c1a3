//! The pause between the registration of the phones and their first unit.

use clap::Parser;
use std::time::{Duration, Instant};
use tandem_lab::interrupt::Interrupt;
use tandem_lab::run::{self, Arguments};

#[derive(Parser)]
struct Program {
    #[command(flatten)]
    run: Arguments,
}

#[test]
fn units_begin_after_the_pause_and_are_not_late_for_it() {
    let words = "lab call --direct --phones 10 --rate 50 --duration 200ms --settle 1s";
    let program = Program::parse_from(words.split_whitespace());
    let run = program.run.run().expect("a run");
    let begun = Instant::now();
    let report = run::run(&run, &Interrupt::default(), |_| ()).expect("a report");
    assert!(begun.elapsed() >= Duration::from_millis(1_200), "{report}");
    assert_eq!(report.units["calls"].succeeded, 10, "{report}");
    assert!(report.delays["lateness"].max < 1_000_000, "{report}");
}
