//! A call through its limits, with a million sources and a million subscribers: of any (memory is cold) and of few (it is warm).

use divan::counter::ItemsCount;
use divan::{Bencher, black_box};
use sip_routing::limit::{
    Call, Declared, DeclaredEach, Description, Limits, NamedLimit, NetworkLimit,
};
use sip_transport::{IpNet, Time};
use std::net::Ipv4Addr;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};

const KEYS: u32 = 1_000_000;
const START: u64 = 1_800_000_000_000_000;

fn main() {
    divan::main();
}

fn declared(calls_per_second: f64, burst: u32, max_calls: u32) -> Declared {
    Declared {
        calls_per_second: Some(calls_per_second),
        burst: Some(burst),
        max_calls: Some(max_calls),
    }
}

fn description() -> Description {
    let each = DeclaredEach {
        bounds: declared(1000.0, 100, 1000),
        max_keys: 2 * KEYS as usize,
    };
    let networks = (0..1000_u32).map(|number| NetworkLimit {
        name: format!("trunk-{number}"),
        networks: vec![
            IpNet::new(Ipv4Addr::from_bits(0x0a00_0000 | number << 10).into(), 22)
                .expect("a network"),
        ],
        bounds: declared(100_000.0, 1_000_000, 100_000),
    });
    Description {
        overall: declared(100_000.0, 1_000_000, 1_000_000),
        networks: networks.collect(),
        each_source: Some(each),
        each_subscriber: Some(each),
        named: vec![NamedLimit {
            name: "rule".to_owned(),
            bounds: Declared::default(),
        }],
    }
}

/// Who calls.
struct Caller {
    source: Ipv4Addr,
    name: [u8; 23],
}

impl Caller {
    fn new(number: u32) -> Self {
        let mut name = *b"user0000000@example.org";
        let digits = name.iter_mut().skip(4).take(7).rev();
        digits.fold(number, |number, digit| {
            *digit = b'0' + (number % 10) as u8;
            number / 10
        });
        Self {
            source: Ipv4Addr::from_bits(0x0a00_0000 | number),
            name,
        }
    }

    fn call(&self) -> Call<'_> {
        Call {
            source: self.source.into(),
            subscriber: Some(&self.name),
            rule: None,
        }
    }
}

/// The resident memory of the process, in bytes.
fn resident() -> usize {
    let statistics = std::fs::read_to_string("/proc/self/statm").unwrap_or_default();
    let pages = statistics.split(' ').nth(1);
    pages
        .and_then(|pages| pages.parse::<usize>().ok())
        .unwrap_or(0)
        * 4096
}

/// Each source and each subscriber had a call at `START`.
fn filled(keys: u32) -> Limits {
    let limits = Limits::new(&description(), None).expect("a description");
    for number in 0..keys {
        drop(limits.admit(&Caller::new(number).call(), Time::from_micros(START)));
    }
    // As the control plane does every second; here without removing anything.
    limits.sweep(Time::from_micros(START), 1);
    limits
}

fn a_million() -> &'static Limits {
    static LIMITS: OnceLock<Limits> = OnceLock::new();
    LIMITS.get_or_init(|| {
        let before = resident();
        let limits = filled(KEYS);
        let bytes = resident().saturating_sub(before) / KEYS as usize;
        eprintln!("a source and a subscriber take {bytes} bytes");
        limits
    })
}

/// Callers in an order that no prefetcher guesses.
fn callers(among: u32) -> Vec<Caller> {
    let mut number = 1_u64;
    let next = |_| {
        number = number
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        Caller::new((number >> 33) as u32 % among)
    };
    (0..among.clamp(1000, 200_000)).map(next).collect()
}

/// The calls of one measurement.
const CALLS: usize = 10_000;

/// The time of the last call. All threads share it, so that no bucket sees a clock that goes back.
static NOW: AtomicU64 = AtomicU64::new(START);

/// Passes `CALLS` calls of these callers, 20 µs apart, to `call`.
fn each_call(callers: &[Caller], mut call: impl FnMut(&Call<'_>, Time)) {
    let first = NOW.fetch_add(20 * CALLS as u64, Ordering::Relaxed);
    let offset = first as usize / 20 % callers.len();
    let callers = callers.iter().cycle().skip(offset).take(CALLS);
    for (caller, now) in callers.zip((first..).step_by(20)) {
        call(black_box(&caller.call()), Time::from_micros(now));
    }
}

fn admit_all(limits: &Limits, callers: &[Caller]) {
    each_call(callers, |call, now| {
        drop(black_box(limits.admit(call, now)));
    });
}

/// New calls and their ends. One thread is refused no call. Of two threads, the one with the older time is refused a few.
#[divan::bench(args = [1000, KEYS], threads = [1, 2])]
fn admit_and_end(bencher: Bencher<'_, '_>, among: u32) {
    let (limits, callers) = (a_million(), callers(among));
    bencher
        .counter(ItemsCount::new(CALLS))
        .bench(|| admit_all(limits, &callers));
}

/// New calls alone. They end when the measurement is over.
#[divan::bench(args = [1000, KEYS])]
fn admit(bencher: Bencher<'_, '_>, among: u32) {
    let (limits, callers) = (a_million(), callers(among));
    bencher
        .counter(ItemsCount::new(CALLS))
        .with_inputs(|| Vec::with_capacity(CALLS))
        .bench_local_values(|mut permits| {
            each_call(&callers, |call, now| {
                permits.push(limits.admit(call, now).ok());
            });
            permits
        });
}

/// Only the limit of all calls and that of one of a thousand networks.
#[divan::bench(args = [1000, KEYS], threads = [1, 2])]
fn admit_and_end_without_tables(bencher: Bencher<'_, '_>, among: u32) {
    let description = Description {
        each_source: None,
        each_subscriber: None,
        ..description()
    };
    let limits = Limits::new(&description, None).expect("a description");
    let callers = callers(among);
    bencher
        .counter(ItemsCount::new(CALLS))
        .bench(|| admit_all(&limits, &callers));
}

/// Calls of a source that has used up its rate.
#[divan::bench(threads = [1, 2])]
fn refuse_a_source(bencher: Bencher<'_, '_>) {
    let (limits, callers) = (a_million(), [Caller::new(7)]);
    bencher.counter(ItemsCount::new(CALLS)).bench(|| {
        each_call(&callers, |call, now| {
            let _refused = black_box(limits.admit(call, now));
        });
    });
}

/// Looks at 10,000 sources and 10,000 subscribers, of which none is idle.
#[divan::bench]
fn sweep_20_000(bencher: Bencher<'_, '_>) {
    let limits = filled(200_000);
    bencher
        .counter(ItemsCount::new(20_000_usize))
        .bench_local(|| limits.sweep(Time::from_micros(START), black_box(10_000)));
}
