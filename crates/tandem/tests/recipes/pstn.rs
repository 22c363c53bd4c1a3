use super::common::run;
use super::setup::{Recipe, call, dial, take};
use std::time::Duration;

const NUMBER: &str = "sip:+4930123@example.org";

#[test]
fn the_carriers_take_turns_and_the_isdn_gateway_gets_nothing() {
    run(async {
        let recipe = Recipe::start("pstn").await;
        let alice = recipe.phone("alice").await;
        for carrier in ["carrier-a", "carrier-b", "carrier-a", "carrier-b"] {
            let (_call, _taken) = call(&alice, NUMBER, recipe.gateway(carrier));
        }
        let isdn = recipe.gateway("isdn").incoming(Duration::ZERO);
        assert!(isdn.is_none());
    });
}

#[test]
fn a_carrier_without_a_route_to_the_number_hands_over_to_the_other_one() {
    run(async {
        let recipe = Recipe::start("pstn").await;
        let alice = recipe.phone("alice").await;
        let call = dial(&alice, NUMBER);
        let incoming = recipe
            .gateway("carrier-a")
            .incoming(super::common::PATIENCE);
        incoming.expect("a call comes").reject(404);
        let _taken = take(recipe.gateway("carrier-b"));
        call.answered().expect("an answer");
    });
}

#[test]
fn the_isdn_gateway_takes_the_calls_when_both_carriers_are_dead() {
    run(async {
        let dead = ["carrier-a", "carrier-b"];
        let recipe = Recipe::start_without("pstn", "example.org", &dead, "").await;
        let alice = recipe.phone("alice").await;
        for _ in 0..3 {
            let (_call, taken) = call(&alice, NUMBER, recipe.gateway("isdn"));
            assert_eq!(taken.user(), "+4930123");
        }
    });
}
