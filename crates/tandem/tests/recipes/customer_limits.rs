use super::common::run;
use super::setup::{Recipe, assert_rate, call, fill, refused, shown};
use std::time::Instant;

#[test]
fn a_phone_has_four_calls_at_a_time() {
    run(async {
        let recipe = Recipe::start("customer-limits").await;
        let alice = recipe.phone("alice").await;
        let carrier = recipe.gateway("carrier");
        let uri = "sip:+4930123@example.org";
        let (mut calls, refusal) = fill(uri, carrier, |_| alice.clone());
        assert_eq!(calls.len(), 4);
        assert_eq!(shown(&refusal), "486 Too many calls");
        // One that ends makes room for one.
        let (ended, _taken) = calls.remove(0);
        ended.hang_up().expect("the server knows");
        let (_call, _taken) = call(&alice, uri, carrier);
        assert_eq!(shown(&refused(&alice, uri)), "486 Too many calls");
    });
}

#[test]
fn a_destination_has_five_calls_of_all_phones_together() {
    run(async {
        let recipe = Recipe::start("customer-limits").await;
        let phones = [recipe.phone("alice").await, recipe.phone("bob").await];
        let carrier = recipe.gateway("carrier");
        let uri = "sip:+881623@example.org";
        let (calls, refusal) = fill(uri, carrier, |count| phones[count % 2].clone());
        assert_eq!(calls.len(), 5);
        assert_eq!(shown(&refusal), "503 Too many calls, Retry-After");
        let elsewhere = call(&phones[0], "sip:+4930123@example.org", carrier);
        assert_eq!(elsewhere.1.user(), "+4930123");
    });
}

#[test]
fn the_network_of_a_customer_has_the_rate_that_it_was_sold() {
    run(async {
        let recipe = Recipe::start("customer-limits").await;
        let mut phones = Vec::new();
        for name in ["a", "b", "c", "d", "e", "f", "g", "h"] {
            let phone = recipe.phone_at(name, "198.51.100.7").await;
            phones.push(phone);
        }
        let begun = Instant::now();
        let carrier = recipe.gateway("carrier");
        let uri = "sip:+4930123@example.org";
        let (calls, refusal) = fill(uri, carrier, |count| phones[count % 8].clone());
        assert_rate(calls.len(), 10, 5.0, begun);
        assert_eq!(shown(&refusal), "503 Too many new calls, Retry-After");
        let other = recipe.phone("other").await;
        let (_call, _taken) = call(&other, uri, carrier);
    });
}
