//! The prefix table with 300,000 and 3 million prefixes: lookups of 100,000 different numbers, and what it takes to build a table.
//!
//! The profiler shows that lookups allocate nothing, and of a build the most bytes at one time. What a build allocates and does not free is
//! the memory of the table, except for the value itself: it must be what [`PrefixTable::bytes`] says.

mod plan;

use divan::{AllocProfiler, Bencher, black_box};
use plan::Sequence;
use sip_routing::prefix::{Builder, CsvReader, PrefixTable};
use std::fmt::Write as _;
use std::sync::OnceLock;
use std::time::Instant;

/// The allocator of the server.
#[global_allocator]
static ALLOCATOR: AllocProfiler<tikv_jemallocator::Jemalloc> =
    AllocProfiler::new(tikv_jemallocator::Jemalloc);

const SMALL: usize = 300_000;
const LARGE: usize = 3_000_000;
const NUMBERS: usize = 100_000;

fn main() {
    divan::main();
    // Not when the benches are tested.
    if std::env::args().any(|argument| argument == "--bench") {
        for (name, plan) in [
            ("300,000", small()),
            ("3,000,000", large()),
            ("ported", ported()),
        ] {
            figures(name, plan);
        }
    }
}

/// Rows, the table of them, and numbers to route.
struct Plan {
    prefixes: Vec<String>,
    groups: Vec<String>,
    lists: Vec<String>,
    table: PrefixTable,
    numbers: Vec<Number>,
}

/// A number, stored beside its neighbours: the server has the number of a call in its cache.
struct Number {
    digits: [u8; 16],
    length: usize,
}

impl Plan {
    fn new(prefixes: Vec<String>) -> Self {
        let groups: Vec<String> = (0..40)
            .map(|number| format!("carrier-{number:02}"))
            .collect();
        let mut sequence = Sequence(7);
        let lists: Vec<String> = (0..500)
            .map(|_| {
                let first = sequence.below(30);
                let last = first + 1 + sequence.below(5);
                groups[first..last].join(";")
            })
            .collect();
        let numbers = plan::numbers(&prefixes, NUMBERS);
        let mut plan = Self {
            prefixes,
            groups,
            lists,
            table: Builder::new([]).build().expect("no bad row"),
            numbers: numbers.iter().map(|number| Number::new(number)).collect(),
        };
        plan.table = plan.build();
        plan
    }

    fn rows(&self) -> impl Iterator<Item = (u32, &str, &str)> {
        let lists = self.lists.iter().cycle();
        let rows = (1..).zip(&self.prefixes).zip(lists);
        rows.map(|((line, prefix), list)| (line, prefix.as_str(), list.as_str()))
    }

    fn builder(&self) -> Builder {
        Builder::new(self.groups.iter().map(String::as_str))
    }

    fn build(&self) -> PrefixTable {
        let mut builder = self.builder();
        for (line, prefix, list) in self.rows() {
            builder.row(line, "retail", prefix, list);
        }
        builder.build().expect("no bad row")
    }

    fn csv(&self) -> String {
        let mut text = "table,prefix,groups\n".to_owned();
        for (_, prefix, list) in self.rows() {
            writeln!(text, "retail,{prefix},{list}").expect("memory can be written");
        }
        text
    }

    fn read_csv(&self, text: &str) -> PrefixTable {
        let mut builder = self.builder();
        let mut reader = CsvReader::new();
        for chunk in text.as_bytes().chunks(1 << 16) {
            reader.read(chunk, &mut builder);
        }
        reader.finish(&mut builder);
        builder.build().expect("no bad row")
    }

    fn lookup(&self, number: &Number) -> usize {
        let digits = black_box(&number.digits[..number.length]);
        let found = self.table.lookup("retail", digits);
        found.map_or(0, |found| found.length + found.routes.groups().len())
    }
}

impl Number {
    fn new(number: &[u8]) -> Self {
        let mut digits = [0; 16];
        digits[..number.len()].copy_from_slice(number);
        Self {
            digits,
            length: number.len(),
        }
    }
}

fn small() -> &'static Plan {
    static PLAN: OnceLock<Plan> = OnceLock::new();
    PLAN.get_or_init(|| Plan::new(plan::prefixes(SMALL)))
}

fn large() -> &'static Plan {
    static PLAN: OnceLock<Plan> = OnceLock::new();
    PLAN.get_or_init(|| Plan::new(plan::prefixes(LARGE)))
}

/// Whole numbers of 15 digits in random order: a trie has long paths for them.
fn ported() -> &'static Plan {
    static PLAN: OnceLock<Plan> = OnceLock::new();
    PLAN.get_or_init(|| {
        let mut sequence = Sequence(3);
        let number = |index: usize| format!("49{:07}{index:06}", sequence.below(10_000_000));
        Plan::new((0..SMALL).map(number).collect())
    })
}

fn of(count: usize) -> &'static Plan {
    if count == SMALL { small() } else { large() }
}

fn bench_lookups(bencher: Bencher<'_, '_>, plan: &Plan) {
    let mut numbers = plan.numbers.iter().cycle();
    bencher.bench_local(|| numbers.next().map(|number| plan.lookup(number)));
}

#[divan::bench(args = [SMALL, LARGE], sample_count = 500, sample_size = 1_000)]
fn lookup(bencher: Bencher<'_, '_>, prefixes: usize) {
    bench_lookups(bencher, of(prefixes));
}

#[divan::bench(sample_count = 500, sample_size = 1_000)]
fn lookup_of_ported_numbers(bencher: Bencher<'_, '_>) {
    bench_lookups(bencher, ported());
}

#[divan::bench(args = [SMALL, LARGE], sample_count = 5, sample_size = 1)]
fn build(bencher: Bencher<'_, '_>, prefixes: usize) {
    let plan = of(prefixes);
    bencher.bench_local(|| plan.build());
}

#[divan::bench(args = [SMALL, LARGE], sample_count = 5, sample_size = 1)]
fn read_csv(bencher: Bencher<'_, '_>, prefixes: usize) {
    let plan = of(prefixes);
    let text = plan.csv();
    bencher.bench_local(|| plan.read_csv(&text));
}

/// Memory, and percentiles of lookups that are timed one by one, which divan does not show.
fn figures(name: &str, plan: &Plan) {
    let timed = |work: &dyn Fn(&Number) -> usize| {
        let time = |number| {
            let begun = Instant::now();
            black_box(work(number));
            begun.elapsed().as_nanos()
        };
        let mut times: Vec<u128> = plan.numbers.iter().map(time).collect();
        times.sort_unstable();
        [50, 99].map(|percent| times[times.len() * percent / 100])
    };
    let [clock, _] = timed(&|number| number.length);
    let [median, p99] = timed(&|number| plan.lookup(number)).map(|time| time - clock);
    println!(
        "{name} prefixes: {} bytes; lookup median {median} ns, p99 {p99} ns (clock {clock} ns subtracted)",
        plan.table.bytes()
    );
}
