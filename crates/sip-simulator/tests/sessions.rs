//! Session timers (RFC 4028): who refreshes a call, and what ends a call that no phone refreshes.

mod exchange;

use exchange::ExchangeMachine;
use sip_simulator::{
    Action, CallPlan, ControlManners, HostPlan, Profile, SessionHabit, World, invariants,
    phone_address,
};
use sip_transport::Time;
use std::time::Duration;

const REFRESHES: SessionHabit = SessionHabit {
    interval: Some(90),
    min_se: None,
    leaves_it_to_others: false,
    updates: false,
    neglects: false,
};

/// A call of ten minutes, five minutes after its beginning. The sessions of the machine last for 120 seconds at most, and for 100 seconds
/// at least.
fn long_call(caller: Option<SessionHabit>, callee: Option<SessionHabit>) -> World<ExchangeMachine> {
    let plan = HostPlan {
        session_timers: Some((120, 100)),
        ..HostPlan::simple(0, 2, &["alice", "bob"])
    };
    let mut world = World::new(1, Time::from_unix_seconds(1_750_000_000), invariants::all());
    world.add_host(ExchangeMachine::new(&plan), ControlManners::PROMPT);
    for (index, (user, session)) in [("alice", caller), ("bob", callee)].into_iter().enumerate() {
        let (address, server) = (phone_address(index, false), plan.listeners[0]);
        let profile = Profile {
            session,
            ..Profile::new(user, &plan.domain, address, server)
        };
        world.add_phone(profile, 0, true);
        world.perform(index, Action::Register);
    }
    world.run_for(Duration::from_secs(1));
    let call = CallPlan {
        to: "sip:bob@host0.test".to_owned(),
        patience: Duration::from_secs(30),
        talk: Duration::from_secs(600),
        renegotiates: false,
    };
    world.perform(0, Action::Call(call));
    world.run_for(Duration::from_secs(300));
    world.expect_sound();
    world
}

#[test]
fn a_call_that_a_phone_refreshes_goes_on_whoever_refreshes_it() {
    let updates = SessionHabit {
        updates: true,
        ..REFRESHES
    };
    let leaves = SessionHabit {
        leaves_it_to_others: true,
        ..REFRESHES
    };
    for (caller, callee) in [
        (Some(REFRESHES), None),
        (Some(updates), None),
        (None, Some(REFRESHES)),
        (Some(leaves), Some(updates)),
    ] {
        let mut world = long_call(caller, callee);
        let total = world.statistics();
        assert!(total.refreshed >= 4, "{caller:?}, {callee:?}: {total:?}");
        assert_eq!(world.phone(0).calls(), 1, "{caller:?}, {callee:?}");
        world.run_until_quiet();
        world.expect_sound();
        assert_eq!(world.statistics().records["caller"], 1);
    }
}

#[test]
fn a_call_that_its_phones_neglect_is_hung_up_at_both() {
    let neglects = SessionHabit {
        neglects: true,
        ..REFRESHES
    };
    for (caller, callee) in [
        (Some(neglects), None),
        (None, Some(neglects)),
        (Some(neglects), Some(neglects)),
    ] {
        let mut world = long_call(caller, callee);
        let total = world.statistics();
        assert_eq!((total.ended, total.records["expired"]), (2, 1), "{total:?}");
        world.run_until_quiet();
        world.expect_sound();
    }
}
