use super::common::run;
use super::setup::{Recipe, call, refused, shown};

const EXCHANGE: (&str, &str) = ("sip:+4940555@exchange.example", "192.0.2.70");

#[test]
fn our_routing_number_is_removed_and_the_subscriber_is_called() {
    run(async {
        let recipe = Recipe::start("portability").await;
        let ported = recipe.phone("4930777").await;
        let _here = ported.register().expect("registered");
        let exchange = recipe.peer(EXCHANGE.0, EXCHANGE.1);
        let (_call, taken) = call(&exchange, "sip:D0214930777@example.org", &ported);
        assert_eq!(taken.user(), "4930777");
    });
}

#[test]
fn other_routing_numbers_and_numbers_that_were_not_ported_go_to_their_carriers() {
    run(async {
        let recipe = Recipe::start("portability").await;
        let exchange = recipe.peer(EXCHANGE.0, EXCHANGE.1);
        for (number, carrier) in [
            ("D0114930777", "north"),
            ("D0344930777", "south"),
            ("4930777", "north"),
            ("4940777", "south"),
        ] {
            let uri = format!("sip:{number}@example.org");
            let (_call, taken) = call(&exchange, &uri, recipe.gateway(carrier));
            assert_eq!(taken.user(), number);
        }
        let unknown = shown(&refused(&exchange, "sip:D0994930777@example.org"));
        assert!(unknown.starts_with("404 "), "{unknown}");
    });
}

#[test]
fn the_second_carrier_of_a_routing_number_takes_the_call_when_the_first_one_is_dead() {
    run(async {
        let dead = ["north"];
        let recipe = Recipe::start_without("portability", "example.org", &dead, "").await;
        let exchange = recipe.peer(EXCHANGE.0, EXCHANGE.1);
        let uri = "sip:D0124930777@example.org";
        let (_call, taken) = call(&exchange, uri, recipe.gateway("south"));
        assert_eq!(taken.user(), "D0124930777");
    });
}

#[test]
fn only_the_exchange_gets_transit() {
    run(async {
        let recipe = Recipe::start("portability").await;
        let stranger = recipe.peer(EXCHANGE.0, "192.0.2.200");
        let refused = shown(&refused(&stranger, "sip:D0114930777@example.org"));
        // For others, it is the name of a subscriber who is not registered.
        assert_eq!(refused, "480 Temporarily Unavailable");
    });
}
