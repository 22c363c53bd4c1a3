use super::common::run;
use super::setup::{Recipe, call, dial, refused, shown, take, take_one};

#[test]
fn subscribers_reach_each_other_by_name() {
    run(async {
        let recipe = Recipe::start("itsp").await;
        let (alice, bob) = (recipe.phone("alice").await, recipe.phone("bob").await);
        let _here = bob.register().expect("registered");
        let (_call, taken) = call(&alice, "sip:bob@example.org", &bob);
        assert_eq!(taken.user(), "bob");
    });
}

#[test]
fn a_number_goes_to_a_carrier_with_the_host_of_the_carrier() {
    run(async {
        let recipe = Recipe::start("itsp").await;
        let alice = recipe.phone("alice").await;
        let call = dial(&alice, "sip:+4930123@example.org");
        let carriers = ["carrier-a", "carrier-b"].map(|name| recipe.gateway(name));
        let (number, taken) = take_one(carriers);
        let address = carriers[number].listeners()[0].address;
        assert_eq!(taken.request_uri(), format!("sip:+4930123@{address}"));
        call.answered().expect("an answer");
    });
}

#[test]
fn while_a_carrier_is_dead_the_other_one_gets_all_calls() {
    run(async {
        let recipe = Recipe::start_without("itsp", "example.org", &["carrier-a"], "").await;
        let alice = recipe.phone("alice").await;
        for number in 0..6 {
            let uri = format!("sip:+49301230{number}@example.org");
            let (_call, taken) = call(&alice, &uri, recipe.gateway("carrier-b"));
            assert_eq!(taken.user(), format!("+49301230{number}"));
        }
    });
}

#[test]
fn a_carrier_reaches_a_subscriber_without_a_password_and_its_identity_is_kept() {
    run(async {
        let recipe = Recipe::start("itsp").await;
        let bob = recipe.phone("bob").await;
        let _here = bob.register().expect("registered");
        let carrier = recipe.peer("sip:+4940555@carrier.example", "192.0.2.20");
        let asserted = "<sip:+4940555@carrier.example>";
        let call = carrier.invite("sip:bob@example.org");
        let call = call.field("P-Asserted-Identity", asserted).send();
        let call = call.expect("sent");
        let taken = take(&bob);
        call.answered().expect("an answer");
        assert!(taken.has_line(&format!("P-Asserted-Identity: {asserted}")));
    });
}

#[test]
fn strangers_reach_no_carrier() {
    run(async {
        let recipe = Recipe::start("itsp").await;
        let stranger = recipe.peer("sip:mallory@evil.example", "203.0.113.5");
        let refused_as = |agent| shown(&refused(agent, "sip:+4930123@example.org"));
        assert!(refused_as(&stranger).starts_with("403 "));
        let liar = recipe.peer("sip:alice@example.org", "203.0.113.5");
        assert!(refused_as(&liar).starts_with("407 "));
    });
}
