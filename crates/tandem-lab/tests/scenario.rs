//! Scenario files: generated files are valid and match the requested parameters.

use proptest::prelude::*;
use std::time::Duration;
use tandem_lab::run::Spacing;
use tandem_lab::scenario::{
    Call, Course, Generator, HEADER, Measured, Pairing, Phones, Rules, Stretch, plot, read,
    validate, write,
};

fn stretches() -> impl Strategy<Value = Vec<Stretch>> {
    // Rates from zero to more than one call per millisecond, the resolution of the format.
    let rate = prop_oneof![1 => Just(0.0), 4 => 0.01..30.0_f64, 2 => 30.0..3_000.0_f64];
    let stretch = (0.01..5.0_f64, rate).prop_map(|(length, rate)| Stretch { length, rate });
    proptest::collection::vec(stretch, 1..12)
}

fn phones() -> impl Strategy<Value = (Phones, Pairing)> {
    prop_oneof![
        (0..5_000_u32, 2..3_000_u32)
            .prop_map(|(first, count)| (Phones { first, count }, Pairing::Any)),
        (0..20_u32, 1..20_u32, 1..120_u32).prop_map(|(first, pairs, pod)| {
            let (first, count) = (first * pod * 2, pairs * pod * 2);
            (Phones { first, count }, Pairing::EvenPodCallsOdd { pod })
        }),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]
    #[test]
    fn what_is_generated_validates(
        stretches in stretches(),
        (phones, pairing) in phones(),
        spacing in prop_oneof![Just(Spacing::Regular), Just(Spacing::Poisson)],
        seed in any::<u64>(),
    ) {
        let Ok(course) = Course::new(stretches) else { return Ok(()) };
        let (expected, duration) = (course.expected_calls(), course.duration());
        let generator = Generator::new(course, phones, pairing, spacing, seed).unwrap();
        let calls: Vec<Call> = generator.collect();
        let mut file = Vec::new();
        write(&mut file, phones.digits(), calls.iter().copied()).unwrap();
        let rules = Rules { phones: Some(phones), pairing, spacing };
        let verdict = validate(read(file.as_slice()), &rules).unwrap();
        prop_assert!(verdict.mistakes.is_empty(), "{:?}", verdict.mistakes);
        prop_assert_eq!(verdict.calls, calls.len() as u64);
        // As many calls as the rates expect, the first one at once.
        let allowed = match spacing {
            Spacing::Regular => 1.001,
            Spacing::Poisson => 10.0 + 8.0 * expected.sqrt(),
        };
        let count = f64::from(u32::try_from(verdict.calls).unwrap());
        prop_assert!((count - expected).abs() <= allowed, "{count} calls, {expected} expected");
        let last = calls.last().unwrap();
        prop_assert!(f64::from(last.second) <= duration + 1.0);
        // Reading returns the written calls, except for rounding of the rate.
        for (line, call) in read(file.as_slice()).zip(&calls) {
            let read = line.unwrap().call;
            prop_assert_eq!((read.caller, read.callee), (call.caller, call.callee));
            prop_assert_eq!((read.wait_ms, read.second), (call.wait_ms, call.second));
            prop_assert!((read.rate / call.rate - 1.0).abs() < 1e-5, "{} {}", read.rate, call.rate);
        }
    }
}

#[test]
fn an_even_wait_over_a_pause_matches_its_rate() {
    let stretches = [(0.1, 30.0), (100.0, 0.0), (0.1, 30.0)];
    for seed in 0..3_000 {
        let stretches = stretches.map(|(length, rate)| Stretch { length, rate });
        let course = Course::new(stretches.to_vec()).unwrap();
        let phones = Phones { first: 0, count: 2 };
        let spacing = Spacing::Regular;
        let calls = Generator::new(course, phones, Pairing::Any, spacing, seed).unwrap();
        for call in calls {
            let wait = f64::from(call.wait_ms);
            assert!((1e3 / call.rate - wait).abs() <= 1.001, "{seed}: {call:?}");
        }
    }
}

/// A valid or invalid field of a scenario.
fn field() -> impl Strategy<Value = Vec<u8>> {
    prop_oneof![
        4 => any::<u32>().prop_map(|number| number.to_string().into_bytes()),
        2 => (0..20_u32).prop_map(|number| format!("{number:04}").into_bytes()),
        1 => any::<f64>().prop_map(|number| number.to_string().into_bytes()),
        1 => proptest::collection::vec(any::<u8>(), 0..300),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]
    #[test]
    fn whatever_is_in_a_file_each_line_is_a_call_or_a_mistake(
        lines in proptest::collection::vec(proptest::collection::vec(field(), 4..7), 0..60),
        (phones, pairing) in phones(),
        spacing in prop_oneof![Just(Spacing::Regular), Just(Spacing::Poisson)],
    ) {
        let mut file = Vec::from(HEADER);
        for fields in &lines {
            file.push(b'\n');
            file.extend(fields.join(&b';'));
        }
        let rules = Rules { phones: Some(phones), pairing, spacing };
        let verdict = validate(read(file.as_slice()), &rules).unwrap();
        let unreadable = read(file.as_slice()).filter(Result::is_err).count() as u64;
        let read_lines = read(file.as_slice()).count() as u64;
        prop_assert_eq!(verdict.calls + unreadable, read_lines);
        let mistakes = verdict.mistakes.first.len() as u64 + verdict.mistakes.more;
        prop_assert!(mistakes >= unreadable);
        let _ = plot(read(file.as_slice()), "whatever");
    }
}

/// The calls of the file follow the measured ones: each of its 144 intervals has the same share of the calls as in Milan.
#[test]
fn a_generated_day_has_the_shape_of_the_measured_one() {
    const MILANO: &str = include_str!("../../../data/milano_calls.csv");
    // Monday.
    let measured: Vec<f64> = MILANO
        .lines()
        .skip(1 + 144)
        .take(144)
        .map(|line| line.split_once(',').unwrap().1.parse().unwrap())
        .collect();
    let total: f64 = measured.iter().sum();
    // Ten minutes become 75 seconds.
    let compressed = Some(Duration::from_secs(3 * 3_600));
    let course = Measured::milano().course(2, 1, 50.0, compressed).unwrap();
    let phones = Phones {
        first: 0,
        count: 1_000,
    };
    let generator = Generator::new(course, phones, Pairing::Any, Spacing::Regular, 1).unwrap();
    let mut generated = vec![0.0; 144];
    let mut highest: f64 = 0.0;
    for call in generator {
        generated[call.second as usize / 75] += 1.0;
        highest = highest.max(call.rate);
    }
    let calls: f64 = generated.iter().sum();
    assert!((highest - 50.0).abs() < 1e-9, "{highest}");
    for (place, (generated, measured)) in generated.iter().zip(&measured).enumerate() {
        let expected = measured / total * calls;
        assert!(
            (generated - expected).abs() <= 2.0,
            "interval {place}: {generated} calls, {expected} measured"
        );
    }
}
