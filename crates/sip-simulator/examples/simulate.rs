//! Runs seeds of the simulator against the exchange until the time is up or a rule is violated.
//!
//! ```text
//! cargo run --release -p sip-simulator --example simulate -- --seeds 1000 --first-seed 1 --minutes 10
//! ```

#[path = "../tests/exchange/mod.rs"]
mod exchange;
#[path = "../tests/fleet/mod.rs"]
mod fleet;

use exchange::ExchangeMachine;
use fleet::{FleetPlan, Planted};
use sip_simulator::{Machine, Outcome, Plan, Statistics, World, build, simulate};
use std::process::ExitCode;
use std::time::{Duration, Instant};

const USAGE: &str = "\
Runs seeds of the simulator against the exchange, and stops at the first one that breaks a rule.

Options:
  --fleet          worlds of a whole fleet: edges, nodes and their store
  --first-seed N   the first seed (default 1)
  --seeds N        how many seeds (default 1000, or with --minutes as many as there is time for)
  --minutes M      stop after so many minutes, whatever is left (default: no limit)
  --keep-going     go on after a violation; list all failing seeds at the end
  --plan           print what the first seed has planned, and stop
  --trace          print everything that happens in the first seed, and stop";

struct Options {
    fleet: bool,
    first_seed: u64,
    seeds: Option<u64>,
    minutes: Option<u64>,
    keep_going: bool,
    show: Option<Show>,
}

/// What to show of the first seed instead of running seeds.
#[derive(Clone, Copy)]
enum Show {
    Plan,
    Trace,
}

fn main() -> ExitCode {
    let options = match parse(std::env::args().skip(1)) {
        Ok(options) => options,
        Err(complaint) => {
            eprintln!("{complaint}\n\n{USAGE}");
            return ExitCode::from(2);
        }
    };
    let seed = options.first_seed;
    match (options.show, options.fleet) {
        (Some(Show::Plan), false) => println!("{:#?}", Plan::new(seed)),
        (Some(Show::Plan), true) => println!("{:#?}", FleetPlan::new(seed)),
        (Some(Show::Trace), false) => {
            let plan = Plan::new(seed);
            let mut world = build(&plan, ExchangeMachine::new);
            world.run_for(plan.duration);
            world.run_until_quiet();
            print_trace(&world);
        }
        (Some(Show::Trace), true) => {
            print_trace(&fleet::run(&FleetPlan::new(seed), Planted::Nothing));
        }
        (None, _) => return run(&options),
    }
    ExitCode::SUCCESS
}

fn print_trace<M: Machine>(world: &World<M>) {
    println!("{}", world.trace().ladder(usize::MAX, None));
}

fn run(options: &Options) -> ExitCode {
    let began = Instant::now();
    let limit = options
        .minutes
        .map(|minutes| Duration::from_secs(minutes * 60));
    let mut total = Statistics::default();
    let (mut seeds, mut virtual_seconds, mut failing) = (0_u64, 0_u64, Vec::new());
    let most = options
        .seeds
        .unwrap_or(if limit.is_some() { u64::MAX } else { 1000 });
    for seed in options.first_seed..options.first_seed.saturating_add(most) {
        if limit.is_some_and(|limit| began.elapsed() >= limit) {
            break;
        }
        let outcome = if options.fleet {
            fleet::simulate(seed, Planted::Nothing)
        } else {
            simulate(seed, ExchangeMachine::new)
        };
        seeds += 1;
        virtual_seconds += outcome.virtual_seconds;
        total.add(&outcome.statistics);
        if outcome.violation.is_some() {
            explain(&outcome, options);
            failing.push(seed);
            if !options.keep_going {
                break;
            }
        }
    }
    let elapsed = began.elapsed();
    let millis = elapsed.as_millis().max(1);
    println!(
        "{seeds} seeds in {:.1} s ({} ms each), {virtual_seconds} virtual seconds ({} per second)",
        elapsed.as_secs_f64(),
        millis / u128::from(seeds.max(1)),
        u128::from(virtual_seconds) * 1000 / millis,
    );
    println!("{total:#?}");
    if failing.is_empty() {
        println!("No rule was broken.");
        return ExitCode::SUCCESS;
    }
    println!("Failing seeds: {failing:?}");
    ExitCode::FAILURE
}

fn explain(outcome: &Outcome, options: &Options) {
    let Some(violation) = &outcome.violation else {
        return;
    };
    println!("Seed {}: {violation}", outcome.seed);
    if !options.keep_going {
        println!("{}", outcome.report.as_deref().unwrap_or_default());
    }
    let fleet = if options.fleet { " --fleet" } else { "" };
    println!("Replay: {}{fleet}", outcome.replay());
}

fn parse(mut arguments: impl Iterator<Item = String>) -> Result<Options, String> {
    let mut options = Options {
        fleet: false,
        first_seed: 1,
        seeds: None,
        minutes: None,
        keep_going: false,
        show: None,
    };
    while let Some(name) = arguments.next() {
        let mut number = || {
            let value = arguments
                .next()
                .ok_or_else(|| format!("{name} needs a number"))?;
            value
                .parse::<u64>()
                .map_err(|_| format!("{name}: {value} is no number"))
        };
        match name.as_str() {
            "--first-seed" => options.first_seed = number()?,
            "--seeds" => options.seeds = Some(number()?),
            "--minutes" => options.minutes = Some(number()?),
            "--keep-going" => options.keep_going = true,
            "--fleet" => options.fleet = true,
            "--plan" => options.show = Some(Show::Plan),
            "--trace" => options.show = Some(Show::Trace),
            other => return Err(format!("unknown option {other}")),
        }
    }
    Ok(options)
}
