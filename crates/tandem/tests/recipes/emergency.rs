use super::common::{PATIENCE, Phone, run};
use super::setup::{Recipe, call, refused, shown};

/// No call is admitted.
const FULL: &str = "[call_limits]\nmax_calls = 0\nsource_max_calls = 0\n";

#[test]
fn emergency_calls_need_no_password_and_other_calls_do() {
    run(async {
        let recipe = Recipe::start("emergency").await;
        let anyone = recipe.peer("sip:anonymous@anonymous.invalid", "203.0.113.5");
        for number in ["112", "110"] {
            let uri = format!("sip:{number}@example.org");
            let (_call, taken) = call(&anyone, &uri, recipe.gateway("control-room-1"));
            assert_eq!(taken.user(), number);
            assert!(taken.has_line("Priority: emergency"));
        }
        let subscriber = recipe.peer("sip:alice@example.org", "203.0.113.5");
        let refused = shown(&refused(&subscriber, "sip:+4930123@example.org"));
        assert!(refused.starts_with("407 "), "{refused}");
    });
}

#[test]
fn a_service_urn_reaches_the_control_room() {
    run(async {
        let recipe = Recipe::start("emergency").await;
        let phone = Phone::new(&recipe.server, "alice");
        let urn = "urn:service:sos.police";
        phone.send((1, "INVITE"), urn, urn, "sos", "");
        let control_room = recipe.gateway("control-room-1");
        let incoming = control_room.incoming(PATIENCE).expect("a call comes");
        assert_eq!(incoming.invite().message().request_uri(), urn.as_bytes());
    });
}

#[test]
fn emergency_calls_pass_when_all_limits_are_full() {
    run(async {
        let recipe = Recipe::start_without("emergency", "example.org", &[], FULL).await;
        let alice = recipe.phone("alice").await;
        let full = shown(&refused(&alice, "sip:+4930123@example.org"));
        assert_eq!(full, "503 Too many calls, Retry-After");
        let control_room = recipe.gateway("control-room-1");
        let (_call, taken) = call(&alice, "sip:112@example.org", control_room);
        assert_eq!(taken.user(), "112");
    });
}

#[test]
fn the_second_control_room_takes_the_call_when_the_first_one_is_dead() {
    run(async {
        let dead = ["control-room-1"];
        let recipe = Recipe::start_without("emergency", "example.org", &dead, "").await;
        let anyone = recipe.peer("sip:anonymous@anonymous.invalid", "203.0.113.5");
        for _ in 0..3 {
            let control_room = recipe.gateway("control-room-2");
            let (_call, _taken) = call(&anyone, "sip:112@example.org", control_room);
        }
    });
}
