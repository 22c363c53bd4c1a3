use super::common::run;
use super::setup::{Recipe, call, refused, shown};

async fn start() -> Recipe {
    Recipe::start_without("pbx", "pbx.example.org", &[], "").await
}

#[test]
fn extensions_call_each_other_with_three_digits() {
    run(async {
        let recipe = start().await;
        let (caller, callee) = (recipe.phone("101").await, recipe.phone("102").await);
        let _here = callee.register().expect("registered");
        let (_call, taken) = call(&caller, "sip:102@pbx.example.org", &callee);
        assert_eq!(taken.user(), "102");
    });
}

#[test]
fn a_leading_zero_goes_to_the_provider_with_an_international_number() {
    run(async {
        let recipe = start().await;
        let extension = recipe.phone("101").await;
        for (dialled, sent) in [("0030555", "+4930555"), ("00043155", "+43155")] {
            let uri = format!("sip:{dialled}@pbx.example.org");
            let (_call, taken) = call(&extension, &uri, recipe.gateway("provider"));
            assert_eq!(taken.user(), sent);
        }
    });
}

#[test]
fn the_provider_reaches_an_extension_by_its_full_number() {
    run(async {
        let recipe = start().await;
        let extension = recipe.phone("101").await;
        let _here = extension.register().expect("registered");
        let provider = recipe.peer("sip:+4940555@provider.example", "192.0.2.10");
        let (_call, _taken) = call(&provider, "sip:+49301234101@pbx.example.org", &extension);
        let unknown = shown(&refused(&provider, "sip:+49301234199@pbx.example.org"));
        assert!(unknown.starts_with("404 "), "{unknown}");
    });
}

#[test]
fn an_outside_call_needs_the_password_of_an_extension() {
    run(async {
        let recipe = start().await;
        let stranger = recipe.peer("sip:101@pbx.example.org", "203.0.113.5");
        let refused = shown(&refused(&stranger, "sip:0030555@pbx.example.org"));
        assert!(refused.starts_with("407 "), "{refused}");
    });
}
