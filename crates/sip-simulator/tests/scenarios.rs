//! Typical calls, step by step, in hand-written worlds.

mod exchange;

use exchange::ExchangeMachine;
use sip_elements::ControlMessage;
use sip_simulator::{
    Action, Answering, CallPlan, ControlManners, Fault, HostPlan, Mischief, Profile, Weather,
    World, calm, host_address, invariants, phone_address,
};
use sip_transport::Time;
use std::time::Duration;

const SECOND: Duration = Duration::from_secs(1);

fn seconds(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

fn call(to: &str) -> Action {
    patient_call(to, 30)
}

fn patient_call(to: &str, patience: u64) -> Action {
    Action::Call(CallPlan {
        to: to.to_owned(),
        patience: seconds(patience),
        talk: seconds(10),
        renegotiates: false,
    })
}

/// A world with one machine and `phones` phones, all registered.
fn registered(workers: u16, phones: usize) -> World<ExchangeMachine> {
    let mut world = calm(1, 1, workers, phones, ExchangeMachine::new);
    for phone in 0..phones {
        world.perform(phone, Action::Register);
    }
    world.run_for(SECOND);
    assert_eq!(world.statistics().registered, phones as u64);
    world
}

/// A world with one machine and the phones of the test, which are not registered.
fn described(profiles: impl IntoIterator<Item = (Profile, bool)>) -> World<ExchangeMachine> {
    let profiles: Vec<_> = profiles.into_iter().collect();
    let users: Vec<_> = profiles
        .iter()
        .map(|(profile, _)| profile.user.as_str())
        .collect();
    let plan = HostPlan::simple(0, 2, &users);
    let mut world = World::new(1, Time::from_unix_seconds(1_750_000_000), invariants::all());
    world.add_host(ExchangeMachine::new(&plan), ControlManners::PROMPT);
    for (profile, honest) in profiles {
        world.add_phone(profile, 0, honest);
    }
    world
}

fn phone(index: usize, user: &str) -> Profile {
    Profile::new(
        user,
        "host0.test",
        phone_address(index, false),
        host_address(0, false),
    )
}

fn answering(index: usize, user: &str, answering: Answering) -> Profile {
    Profile {
        answering: vec![(1, answering)],
        ..phone(index, user)
    }
}

/// Registers all phones, lets the first one call, and runs the world until it is quiet.
fn first_calls(
    mut world: World<ExchangeMachine>,
    phones: usize,
    action: Action,
) -> World<ExchangeMachine> {
    for phone in 0..phones {
        world.perform(phone, Action::Register);
    }
    world.run_for(SECOND);
    world.perform(0, action);
    world.run_for(seconds(60));
    world.run_until_quiet();
    world.expect_sound();
    world
}

#[test]
fn a_registered_phone_is_called_talks_and_hangs_up_whatever_the_number_of_workers() {
    for workers in [1, 2, 3, 16] {
        let mut world = registered(workers, 2);
        world.perform(0, call("sip:user1@host0.test"));
        world.run_for(seconds(8));
        assert_eq!(
            (world.phone(0).calls(), world.phone(1).calls()),
            (1, 1),
            "{workers} workers"
        );
        world.run_for(seconds(10));
        world.run_until_quiet();
        world.expect_sound();
        let seen = world.statistics();
        assert_eq!(
            (seen.answered, seen.acknowledged, seen.unacknowledged),
            (1, 1, 0)
        );
        assert_eq!(seen.ended, 2, "both sides know that the call is over");
    }
}

#[test]
fn in_calm_weather_every_call_is_answered_and_nothing_is_sent_twice() {
    let mut world = registered(3, 10);
    for round in 0..20_u64 {
        for caller in 0..5 {
            let after = seconds(round * 15) + Duration::from_millis(37) * caller;
            let callee = format!("sip:user{}@host0.test", caller + 5);
            world.perform_in(after, caller as usize, call(&callee));
        }
    }
    world.run_for(seconds(330));
    world.run_until_quiet();
    world.expect_sound();
    let seen = world.statistics();
    assert_eq!((seen.answered, seen.acknowledged), (100, 100), "{seen:?}");
    assert!(seen.failed.is_empty() && seen.timed_out == 0, "{seen:?}");
    for worker in world.nodes(0) {
        let stats = worker.transaction_stats();
        assert_eq!(stats.requests_retransmitted, 0, "{stats:?}");
        assert_eq!(
            stats.requests_absorbed + stats.responses_stray,
            0,
            "{stats:?}"
        );
    }
}

#[test]
fn who_cannot_be_reached_is_reported_with_the_reason() {
    let rows: [(&str, Option<Answering>, u16); 6] = [
        ("sip:nobody@host0.test", None, 404),
        ("sip:bob@host0.test", None, 480),
        ("sip:bob@elsewhere.test", None, 403),
        (
            "sip:bob@host0.test",
            Some(Answering::Refuse {
                after: SECOND,
                status: 486,
            }),
            486,
        ),
        (
            "sip:bob@host0.test",
            Some(Answering::Refuse {
                after: SECOND,
                status: 603,
            }),
            603,
        ),
        ("sip:bob@host0.test", Some(Answering::RingForEver), 487),
    ];
    for (to, bob, status) in rows {
        let registered = bob.is_some();
        let bob = answering(1, "bob", bob.unwrap_or(Answering::RingForEver));
        let world = described([(phone(0, "alice"), true), (bob, true)]);
        let world = first_calls(world, if registered { 2 } else { 1 }, patient_call(to, 5));
        let failed = &world.statistics().failed;
        assert_eq!(
            failed.get(&status),
            Some(&1),
            "{to} should have got {status}: {failed:?}"
        );
    }
}

#[test]
fn a_callee_that_says_nothing_is_given_up_after_timer_b() {
    let silent = answering(1, "bob", Answering::Silent);
    let world = described([(phone(0, "alice"), true), (silent, true)]);
    let world = first_calls(world, 2, patient_call("sip:bob@host0.test", 50));
    assert_eq!(
        world.statistics().failed.get(&408),
        Some(&1),
        "{:?}",
        world.statistics()
    );
}

#[test]
fn a_callee_that_accepts_while_being_cancelled_is_hung_up_on() {
    let racing = answering(1, "bob", Answering::AcceptWhenCancelled);
    let world = described([(phone(0, "alice"), true), (racing, true)]);
    let world = first_calls(world, 2, patient_call("sip:bob@host0.test", 5));
    let seen = world.statistics();
    assert_eq!(
        (seen.answered, seen.acknowledged, seen.ended),
        (1, 1, 2),
        "{seen:?}"
    );
}

#[test]
fn all_phones_of_a_subscriber_ring_and_the_one_that_answers_silences_the_others() {
    let bob = |index, after| {
        answering(
            index,
            "bob",
            Answering::Accept {
                after: seconds(after),
            },
        )
    };
    let phones = [
        (phone(0, "alice"), true),
        (bob(1, 9), true),
        (bob(2, 3), true),
        (bob(3, 9), true),
    ];
    let mut world = described(phones);
    for phone in 0..4 {
        world.perform(phone, Action::Register);
    }
    world.run_for(SECOND);
    world.perform(0, call("sip:bob@host0.test"));
    world.run_for(seconds(2));
    let calls = |world: &World<ExchangeMachine>| [1, 2, 3].map(|bob| world.phone(bob).calls());
    assert_eq!(calls(&world), [1, 1, 1], "all ring");
    world.run_for(seconds(3));
    assert_eq!(calls(&world), [0, 1, 0], "one has answered");
    world.run_until_quiet();
    world.expect_sound();
    assert_eq!(world.statistics().answered, 1);
}

#[test]
fn a_wrong_password_neither_registers_nor_calls() {
    let guessing = Profile {
        password: "guessed".to_owned(),
        ..phone(1, "mallory")
    };
    let mut world = described([(phone(0, "alice"), true), (guessing, false)]);
    world.perform(0, Action::Register);
    world.perform(1, Action::Register);
    world.perform(1, call("sip:alice@host0.test"));
    world.run_for(seconds(40));
    assert_eq!(world.phone(1).registered(), None);
    assert_eq!(world.phone(0).calls(), 0);
    world.run_until_quiet();
    world.expect_sound();
    assert_eq!(
        (world.statistics().answered, world.statistics().registered),
        (0, 1)
    );
}

#[test]
fn no_caller_uses_another_identity_or_relays_to_a_third_party() {
    let victim = "198.51.100.7:5060".parse().unwrap();
    let alice = || "sip:alice@host0.test".to_owned();
    let tricks = [
        Mischief::ForgedCall(alice(), "sip:bob@host0.test".to_owned()),
        Mischief::ForgedRegistration(alice()),
        Mischief::OpenRelay(victim),
        Mischief::RelayByRoute(alice(), victim),
        Mischief::RelayByDialog(victim),
    ];
    let mut world = described([
        (phone(0, "alice"), true),
        (phone(1, "bob"), true),
        (phone(2, "mallory"), false),
    ]);
    for phone in 0..3 {
        world.perform(phone, Action::Register);
    }
    world.run_for(SECOND);
    for trick in tricks {
        let refused = world.statistics().finals.get(&403).copied().unwrap_or(0);
        world.perform(2, Action::Mischief(trick.clone()));
        world.run_for(seconds(40));
        world.expect_sound();
        let after = world.statistics().finals.get(&403).copied().unwrap_or(0);
        assert_eq!(
            after,
            refused + 1,
            "{trick:?} was not refused: {:?}",
            world.statistics()
        );
    }
    assert_eq!(world.phone(0).calls(), 0);
}

#[test]
fn registrations_survive_a_crash_and_a_call_goes_through_at_once() {
    let mut world = registered(2, 2);
    world.run_for(seconds(10));
    world.fault_in(Duration::ZERO, Fault::Crash(0, SECOND));
    world.run_for(SECOND + Duration::from_millis(1));
    world.perform(0, call("sip:user1@host0.test"));
    world.run_for(seconds(5));
    assert_eq!((world.phone(0).calls(), world.phone(1).calls()), (1, 1));
    world.run_until_quiet();
    world.expect_sound();
    assert_eq!(world.statistics().acknowledged, 1);
}

#[test]
fn a_call_survives_a_crash_and_is_hung_up_through_the_new_life() {
    let mut world = registered(2, 2);
    world.perform(0, call("sip:user1@host0.test"));
    world.run_for(seconds(5));
    world.fault_in(Duration::ZERO, Fault::Crash(0, SECOND));
    world.run_for(seconds(20));
    assert_eq!((world.phone(0).calls(), world.phone(1).calls()), (0, 0));
    world.run_until_quiet();
    world.expect_sound();
    let seen = world.statistics();
    assert_eq!((seen.ended, seen.timed_out), (2, 0), "{seen:?}");
    assert_eq!((seen.restored, seen.records["caller"]), (1, 1), "{seen:?}");
}

#[test]
fn a_call_rings_on_when_the_callee_is_lost_until_timer_c_ends_it() {
    let ringing = answering(1, "bob", Answering::RingForEver);
    let mut world = described([(phone(0, "alice"), true), (ringing, true)]);
    for phone in 0..2 {
        world.perform(phone, Action::Register);
    }
    world.run_for(SECOND);
    world.perform(0, patient_call("sip:bob@host0.test", 300));
    world.run_for(seconds(10));
    world.perform(1, Action::Vanish);
    world.run_for(seconds(230));
    assert_eq!(
        world.statistics().failed.get(&408),
        Some(&1),
        "{:?}",
        world.statistics()
    );
    world.run_until_quiet();
    world.expect_sound();
}

#[test]
fn subscribers_of_two_machines_call_each_other() {
    let mut world = calm(1, 2, 2, 4, ExchangeMachine::new);
    for phone in 0..4 {
        world.perform(phone, Action::Register);
    }
    world.run_for(SECOND);
    world.perform(0, call("sip:user1@host1.test"));
    world.perform(3, call("sip:user2@host0.test"));
    world.run_for(seconds(6));
    assert!((0..4).all(|phone| world.phone(phone).calls() == 1));
    world.run_for(seconds(10));
    world.run_until_quiet();
    world.expect_sound();
    let seen = world.statistics();
    assert_eq!(
        (seen.answered, seen.acknowledged, seen.ended),
        (2, 2, 4),
        "{seen:?}"
    );
}

#[test]
fn calls_to_a_domain_with_a_dead_server_reach_the_living_one() {
    let fails_over = |plan: &HostPlan| {
        ExchangeMachine::new(&HostPlan {
            no_answer: Some(seconds(3)),
            ..plan.clone()
        })
    };
    let mut world = calm(1, 2, 1, 12, fails_over);
    for phone in 0..12 {
        world.perform(phone, Action::Register);
    }
    world.run_for(SECOND);
    for phone in (0..10).step_by(2) {
        world.perform(phone, call("sip:user1@host1.test"));
        world.run_for(seconds(25));
    }
    world.run_until_quiet();
    world.expect_sound();
    let seen = world.statistics();
    assert_eq!((seen.answered, seen.acknowledged), (5, 5), "{seen:?}");
    let dead = world.machine(0).shared.dead_targets.stats();
    assert!(dead.died > 0 && dead.revived == 0, "{dead:?}");
}

#[test]
fn a_phone_that_cannot_be_reached_where_its_via_says_gets_its_responses() {
    let hidden = Profile {
        hides_behind_rport: true,
        ..phone(0, "alice")
    };
    let world = described([(hidden, true), (phone(1, "bob"), true)]);
    let world = first_calls(world, 2, call("sip:bob@host0.test"));
    assert_eq!(
        (world.statistics().answered, world.statistics().timed_out),
        (1, 0)
    );
}

#[test]
fn phones_on_ipv6_and_ipv4_call_each_other() {
    let plan = HostPlan {
        listeners: vec![host_address(0, false), host_address(0, true)],
        ..HostPlan::simple(0, 2, &["four", "six"])
    };
    let mut world = World::new(1, Time::from_unix_seconds(1_750_000_000), invariants::all());
    world.add_host(ExchangeMachine::new(&plan), ControlManners::PROMPT);
    let profile = |index, user, ipv6| {
        Profile::new(
            user,
            "host0.test",
            phone_address(index, ipv6),
            host_address(0, ipv6),
        )
    };
    world.add_phone(profile(0, "four", false), 0, true);
    world.add_phone(profile(1, "six", true), 0, true);
    for phone in 0..2 {
        world.perform(phone, Action::Register);
    }
    world.run_for(SECOND);
    world.perform(0, call("sip:six@host0.test"));
    world.run_for(seconds(60));
    world.perform(1, call("sip:four@host0.test"));
    world.run_for(seconds(60));
    world.run_until_quiet();
    world.expect_sound();
    let seen = world.statistics();
    assert_eq!(
        (seen.answered, seen.acknowledged, seen.timed_out),
        (2, 2, 0),
        "{seen:?}"
    );
}

#[test]
fn a_draining_machine_finishes_its_calls_and_takes_no_new_ones() {
    let mut world = registered(2, 4);
    world.perform(0, call("sip:user1@host0.test"));
    world.run_for(seconds(5));
    world.order(0, || ControlMessage::Drain(true));
    world.run_for(SECOND);
    world.perform(2, call("sip:user3@host0.test"));
    world.run_for(seconds(20));
    let seen = world.statistics();
    assert_eq!(
        (seen.answered, seen.ended),
        (1, 2),
        "the old call was finished: {seen:?}"
    );
    assert_eq!(
        seen.failed.get(&503),
        Some(&1),
        "the new one was refused: {seen:?}"
    );
    world.run_until_quiet();
    world.expect_sound();
}

#[test]
fn a_control_plane_that_is_away_costs_new_calls_but_nothing_is_left_behind() {
    let mut world = calm(1, 1, 2, 2, ExchangeMachine::new);
    world.fault_in(Duration::ZERO, Fault::ControlAway(0, seconds(60)));
    world.run_for(SECOND);
    world.perform(0, Action::Register);
    world.run_for(seconds(20));
    assert_eq!(world.phone(0).registered(), None);
    assert!(
        world.statistics().finals.contains_key(&500),
        "{:?}",
        world.statistics()
    );
    world.run_for(seconds(80));
    assert!(
        world.phone(0).registered().is_some(),
        "{:?}",
        world.statistics()
    );
    world.run_until_quiet();
    world.expect_sound();
}

#[test]
fn calls_get_through_a_storm() {
    let mut world = registered(2, 2);
    let storm = Weather {
        loss: 200,
        duplication: 150,
        jitter: Duration::from_millis(300),
        ..Weather::CALM
    };
    world.set_weather(storm);
    for attempt in 0..20 {
        world.perform_in(seconds(attempt * 40), 0, call("sip:user1@host0.test"));
    }
    world.run_for(seconds(810));
    let seen = world.statistics().clone();
    assert!(seen.lost > 100 && seen.answered >= 18, "{seen:?}");
    world.run_until_quiet();
    world.expect_sound();
}

#[test]
fn who_calls_and_gives_up_again_and_again_piles_up_no_questions() {
    let plan = HostPlan {
        most_parked: 3,
        ..HostPlan::simple(0, 1, &["alice", "bob"])
    };
    let slow = ControlManners {
        delay: (seconds(2), seconds(2)),
        ..ControlManners::PROMPT
    };
    let mut world = World::new(1, Time::from_unix_seconds(1_750_000_000), invariants::all());
    world.add_host(ExchangeMachine::new(&plan), slow);
    world.add_phone(phone(0, "alice"), 0, true);
    for attempt in 0..8 {
        let hasty = Action::Call(CallPlan {
            to: "sip:bob@host0.test".to_owned(),
            patience: Duration::from_millis(20),
            talk: SECOND,
            renegotiates: false,
        });
        world.perform_in(Duration::from_millis(50 * attempt), 0, hasty);
    }
    world.run_for(SECOND);
    let failed = &world.statistics().failed;
    assert_eq!(
        failed.get(&487),
        Some(&3),
        "as many as there are places: {failed:?}"
    );
    assert_eq!(
        failed.get(&503),
        Some(&5),
        "the others are refused: {failed:?}"
    );
    world.run_until_quiet();
    world.expect_sound();
}

#[test]
fn an_acceptance_is_passed_on_when_the_call_is_long_over() {
    let quick = answering(
        1,
        "bob",
        Answering::Accept {
            after: Duration::ZERO,
        },
    );
    let late = answering(2, "bob", Answering::AcceptWhenCancelled);
    let mut world = described([(phone(0, "alice"), true), (quick, true), (late, true)]);
    for phone in 0..3 {
        world.perform(phone, Action::Register);
    }
    world.run_for(SECOND);
    // Only the last INVITE, 31.5 seconds after the first, reaches the second phone.
    world.fault_in(Duration::ZERO, Fault::CutOff(2, seconds(31)));
    world.perform(0, call("sip:bob@host0.test"));
    world.run_for(seconds(31));
    for _ in 0..10_000 {
        if world.phone(2).calls() == 1 {
            break;
        }
        world.run_for(Duration::from_micros(100));
    }
    assert_eq!(world.phone(2).calls(), 1, "it rings at last");
    // The phone gets its CANCEL and accepts nevertheless. The 2xx arrives when the first 2xx is more than 32 seconds
    // old.
    world.run_for(Duration::from_micros(1_500));
    world.fault_in(Duration::ZERO, Fault::CutOff(2, seconds(3)));
    world.run_for(seconds(40));
    // The caller has forgotten its INVITE by now. The invariants check that the 2xx reached it.
    let seen = world.statistics();
    assert_eq!((seen.acknowledged, seen.unacknowledged), (1, 1), "{seen:?}");
    world.run_until_quiet();
    world.expect_sound();
}
