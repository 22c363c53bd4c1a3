use super::common::{Phone, header, run, text};
use super::setup::{Recipe, call, refused, shown};

#[test]
fn the_echo_test_answers_subscribers_only() {
    run(async {
        let recipe = Recipe::start("test-line").await;
        let alice = recipe.phone("alice").await;
        let (_call, taken) = call(&alice, "sip:9990@example.org", recipe.gateway("echo"));
        assert_eq!(taken.user(), "9990");
        let stranger = recipe.peer("sip:alice@example.org", "203.0.113.5");
        let refused = shown(&refused(&stranger, "sip:9990@example.org"));
        assert!(refused.starts_with("407 "), "{refused}");
    });
}

#[test]
fn the_other_lines_always_answer_alike() {
    run(async {
        let recipe = Recipe::start("test-line").await;
        let alice = recipe.phone("alice").await;
        let answer = |number| refused(&alice, &format!("sip:{number}@example.org"));
        assert_eq!(shown(&answer("9991")), "486 Busy Here");
        assert_eq!(shown(&answer("9992")), "404 Not Found");
        let moved = answer("9993");
        assert_eq!(shown(&moved), "302 Moved Temporarily");
        let moved = text(moved.message().bytes());
        let contact = header(&moved, "Contact").expect("a Contact");
        assert!(contact.starts_with("<sip:9990@example.org>"), "{contact}");
    });
}

#[test]
fn the_tools_of_technicians_need_no_password() {
    run(async {
        let recipe = Recipe::start("test-line").await;
        let uri = "sip:alice@example.org";
        let alice = recipe.phone("alice").await;
        let _here = alice.register().expect("registered");
        let tool = Phone::from(&recipe.server, "127.10.0.3", "tool");
        tool.send((1, "OPTIONS"), uri, uri, "tool", "");
        assert_eq!(tool.final_response("OPTIONS").0, 200);
        let other = Phone::from(&recipe.server, "127.10.1.3", "other");
        other.send((1, "OPTIONS"), uri, uri, "other", "");
        assert_ne!(other.final_response("OPTIONS").0, 200);
    });
}
