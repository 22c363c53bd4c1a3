use super::common::run;
use super::setup::{Recipe, assert_rate, call, dial, fill, refused, shown, take_one};
use std::time::Instant;

const GOLD: (&str, &str) = ("sip:1@one.example", "198.51.100.2");
const SILVER: (&str, &str) = ("sip:2@two.example", "198.51.100.20");

#[test]
fn the_longest_prefix_in_the_plan_of_the_customer_decides() {
    run(async {
        let recipe = Recipe::start("wholesale").await;
        let gold = recipe.peer(GOLD.0, GOLD.1);
        let world = recipe.gateway("world");
        for number in ["+4940555", "+33155"] {
            let (_call, taken) = call(&gold, &format!("sip:{number}@example.org"), world);
            assert_eq!(taken.user(), number);
        }
        let silver = recipe.peer(SILVER.0, SILVER.1);
        let (_call, _taken) = call(&silver, "sip:+4940555@example.org", world);
        let no_route = shown(&refused(&silver, "sip:+33155@example.org"));
        assert!(no_route.starts_with("404 "), "{no_route}");
    });
}

#[test]
fn calls_are_spread_over_the_carriers_of_a_group_by_their_load() {
    run(async {
        let recipe = Recipe::start("wholesale").await;
        let gold = recipe.peer(GOLD.0, GOLD.1);
        let uri = "sip:+4930555@example.org";
        let berlin = ["berlin-a", "berlin-b"].map(|name| recipe.gateway(name));
        for _ in 0..3 {
            let one = dial(&gold, uri);
            let (first, _taken) = take_one(berlin);
            let _other = dial(&gold, uri);
            let (second, _taken) = take_one(berlin);
            assert_ne!(first, second);
            one.answered().expect("an answer");
        }
    });
}

#[test]
fn when_the_first_group_is_dead_the_next_one_of_the_plan_takes_the_call() {
    run(async {
        let dead = ["berlin-a", "berlin-b"];
        let recipe = Recipe::start_without("wholesale", "example.org", &dead, "").await;
        let gold = recipe.peer(GOLD.0, GOLD.1);
        let uri = "sip:+4930555@example.org";
        let (_call, taken) = call(&gold, uri, recipe.gateway("world"));
        assert_eq!(taken.user(), "+4930555");
        // The plan of the other customer has no other group.
        let silver = recipe.peer(SILVER.0, SILVER.1);
        let refused = shown(&refused(&silver, uri));
        assert_eq!(refused, "500 Next hop is not reachable");
    });
}

#[test]
fn each_customer_has_the_rate_that_it_was_sold_and_others_are_refused() {
    run(async {
        let recipe = Recipe::start("wholesale").await;
        let world = recipe.gateway("world");
        let silver = recipe.peer(SILVER.0, SILVER.1);
        let begun = Instant::now();
        let uri = "sip:+4940555@example.org";
        let (calls, refusal) = fill(uri, world, |_| silver.clone());
        assert_rate(calls.len(), 10, 10.0, begun);
        assert_eq!(shown(&refusal), "503 Too many new calls, Retry-After");
        let gold = recipe.peer(GOLD.0, GOLD.1);
        let (_call, _taken) = call(&gold, uri, world);
        let stranger = recipe.peer(GOLD.0, "198.51.100.200");
        let refused = shown(&refused(&stranger, uri));
        assert_eq!(refused, "403 Forbidden");
    });
}
