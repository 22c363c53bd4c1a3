use super::common::run;
use super::setup::{Recipe, assert_rate, call, fill, refused, shown};
use std::time::Instant;

const PBX: &str = "198.51.100.7";

#[test]
fn the_pbx_calls_anywhere_without_a_password_and_others_do_not() {
    run(async {
        let recipe = Recipe::start("trunk").await;
        let pbx = recipe.peer("sip:+49301234100@pbx.example", PBX);
        let (_call, taken) = call(&pbx, "sip:+4940555@example.org", recipe.gateway("carrier"));
        assert_eq!(taken.user(), "+4940555");
        let stranger = recipe.peer("sip:+49301234100@pbx.example", "198.51.100.8");
        let refused = shown(&refused(&stranger, "sip:+4940555@example.org"));
        // For others, it is the name of a subscriber who is not registered.
        assert_eq!(refused, "480 Temporarily Unavailable");
    });
}

#[test]
fn calls_to_its_numbers_go_to_the_pbx_over_tcp_from_the_carrier_subscribers_and_itself() {
    run(async {
        let recipe = Recipe::start("trunk").await;
        let callers = [
            recipe.peer("sip:+4940555@carrier.example", "192.0.2.10"),
            recipe.phone("alice").await,
            recipe.peer("sip:+49301234100@pbx.example", PBX),
        ];
        for caller in &callers {
            let pbx = recipe.gateway("customer-7");
            let (_call, taken) = call(caller, "sip:+49301234101@example.org", pbx);
            assert_eq!(taken.user(), "+49301234101");
        }
        let stranger = recipe.peer("sip:mallory@evil.example", "203.0.113.5");
        let refused = shown(&refused(&stranger, "sip:+49301234101@example.org"));
        assert!(refused.starts_with("403 "), "{refused}");
    });
}

#[test]
fn the_pbx_has_as_many_new_calls_per_second_as_it_was_sold() {
    run(async {
        let recipe = Recipe::start("trunk").await;
        let pbx = recipe.peer("sip:+49301234100@pbx.example", PBX);
        let begun = Instant::now();
        let carrier = recipe.gateway("carrier");
        let (calls, refused) = fill("sip:+4940555@example.org", carrier, |_| pbx.clone());
        assert_rate(calls.len(), 5, 5.0, begun);
        assert_eq!(shown(&refused), "503 Too many new calls, Retry-After");
    });
}

#[test]
fn the_lines_of_the_pbx_take_thirty_calls() {
    run(async {
        let recipe = Recipe::start("trunk").await;
        let alice = recipe.phone("alice").await;
        let pbx = recipe.gateway("customer-7");
        let (calls, refused) = fill("sip:+49301234101@example.org", pbx, |_| alice.clone());
        assert_eq!(calls.len(), 30);
        assert!(shown(&refused).starts_with("503 "), "{refused:?}");
    });
}
