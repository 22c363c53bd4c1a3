use super::common::run;
use super::setup::{Recipe, call, refusal, refused, shown};

#[test]
fn a_fraudulent_network_is_refused() {
    run(async {
        let recipe = Recipe::start("blocking").await;
        let fraud = recipe.peer("sip:alice@example.org", "203.0.113.77");
        let refused = shown(&refused(&fraud, "sip:bob@example.org"));
        assert_eq!(refused, "403 Forbidden");
    });
}

#[test]
fn a_scanner_finds_nothing() {
    run(async {
        let recipe = Recipe::start("blocking").await;
        let scanner = recipe.peer("sip:100@example.org", "192.0.2.99");
        let call = scanner.invite("sip:100@example.org");
        let call = call.field("User-Agent", "friendly-scanner 1.0").send();
        assert_eq!(shown(&refusal(&call.expect("sent"))), "404 Not Found");
    });
}

#[test]
fn expensive_numbers_are_blocked_and_other_numbers_are_called() {
    run(async {
        let recipe = Recipe::start("blocking").await;
        let alice = recipe.phone("alice").await;
        for number in ["0900123", "+49900123", "0049900123", "+88211", "0088211"] {
            let uri = format!("sip:{number}@example.org");
            assert_eq!(shown(&refused(&alice, &uri)), "603 Number blocked");
        }
        // Visual separators do not help.
        let written = "sip:+49-900-123@example.org";
        assert_eq!(shown(&refused(&alice, written)), "603 Number blocked");
        let carrier = recipe.gateway("carrier");
        let (_call, taken) = call(&alice, "sip:+4990123@example.org", carrier);
        assert_eq!(taken.user(), "+4990123");
    });
}

#[test]
fn a_call_without_the_number_of_the_caller_is_refused() {
    run(async {
        let recipe = Recipe::start("blocking").await;
        let anonymous = recipe.peer("sip:anonymous@anonymous.invalid", "192.0.2.99");
        let refused = shown(&refused(&anonymous, "sip:alice@example.org"));
        assert_eq!(refused, "433 Anonymity Disallowed");
    });
}
