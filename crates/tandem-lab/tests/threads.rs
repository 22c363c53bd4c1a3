//! Calls between the threads of one generator.

use clap::Parser;
use std::io::Write;
use tandem_lab::interrupt::Interrupt;
use tandem_lab::run::{self, Arguments};
use tandem_lab::scenario::HEADER;

const CALLS: u64 = 40;

#[derive(Parser)]
struct Program {
    #[command(flatten)]
    run: Arguments,
}

#[test]
fn calls_between_threads_are_made_and_measured_like_those_within_one() {
    let mut file = tempfile::NamedTempFile::new().expect("a file");
    writeln!(file, "{HEADER}").expect("written");
    // Phones 0 to 49 belong to the first thread, 50 to 99 to the second.
    for call in 0..CALLS / 2 {
        let (one, other) = (call, 50 + call);
        writeln!(
            file,
            "{one:02};{other:02};5;0;200\n{other:02};{one:02};5;0;200"
        )
        .expect("written");
    }
    let path = file.path().display();
    for how in ["", "--busy-poll"] {
        let words = format!("lab scenario {path} --direct --phones 100 --workers 2 {how}");
        let arguments = Program::parse_from(words.split_whitespace()).run;
        let run = arguments.run().expect("a run");
        let report = run::run(&run, &Interrupt::default(), |_| ()).expect("a report");
        assert_eq!(report.units["calls"].succeeded, CALLS, "{report}");
        assert_eq!(report.calls_taken, CALLS, "{report}");
        for delay in ["invite_to_callee", "answer_to_caller"] {
            assert_eq!(report.delays[delay].count, CALLS, "{report}");
        }
    }
}
