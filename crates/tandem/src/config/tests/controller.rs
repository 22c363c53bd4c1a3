//! The configuration of the controller.
use super::super::controller::parse_controller;
use super::*;
use tandem_fleet::members::instance_id;

/// What every file needs.
const API: &str = "[api]\ntoken_file = \"/etc/tandem/fleet.token\"\n";

fn read(text: &str) -> Result<super::super::controller::ControllerConfiguration, String> {
    let environment = Environment::default();
    parse_controller(&format!("{API}{text}"), "c.toml", &environment).map_err(|it| it.to_string())
}

#[test]
fn a_static_fleet_lists_its_nodes() {
    let configuration = read(
        "[members]\nadmin_port = 8062\n[[member]]\nname = \"sip-1\"\naddress = \"192.0.2.11:5060\"\n\
         [[member]]\nname = \"sip-2\"\ninstance = \"b\"\naddress = \"192.0.2.12:5060\"\nadmin = \"10.0.0.2:1\"\n",
    );
    let nodes = configuration.expect("valid").listed();
    assert_eq!(
        (nodes[0].instance.as_str(), nodes[1].instance.as_str()),
        ("sip-1", "b")
    );
    let admins = nodes
        .iter()
        .filter_map(|node| node.admin)
        .map(|admin| admin.to_string());
    assert_eq!(
        admins.collect::<Vec<_>>(),
        ["192.0.2.11:8062", "10.0.0.2:1"]
    );
    assert_eq!(nodes[1].id(), instance_id("b"));
}

#[test]
fn wrong_files_say_where_and_why() {
    let one = "[[member]]\nname = \"a\"\naddress = \"192.0.2.11:5060\"\n";
    for (text, problem) in [
        (String::new(), "`[[member]]`: the set has no nodes"),
        (one.repeat(2), "the nodes a and a have the same instance a"),
        (format!("{one}instance = \"a b\"\n"), "`instance` = \"a b\""),
        (
            "[members]\nsource = \"api\"\n".to_owned(),
            "c.toml:4:10: `members.source = \"api\"`: requires `members.state_file`",
        ),
        (
            format!("[members]\nsource = \"dns\"\nname = \"x\"\n{one}"),
            "not possible with `members.source = \"dns\"`",
        ),
        (
            "[members]\nsource = \"kubernetes\"\n".to_owned(),
            "`members.service`",
        ),
        ("[custom_metrics]\n".to_owned(), "`custom_metrics.chain`"),
        ("[mebers]\n".to_owned(), "members"),
    ] {
        let error = read(&text).expect_err(problem);
        assert!(error.contains(problem), "{text}\n{error}");
    }
    let error = parse_controller("", "c.toml", &Environment::default()).expect_err("no token");
    assert!(error.to_string().contains("`api.token_file`"), "{error}");
}

#[test]
fn every_example_in_the_reference_of_the_controller_is_a_valid_file() {
    let page = controller_reference();
    let node = "[[member]]\nname = \"a\"\naddress = \"192.0.2.99:5060\"\n";
    let mut blocks = 0;
    for block in page.split("```toml\n").skip(1) {
        let block = block.split("```").next().unwrap_or_default();
        let api = if block.contains("[api]") { "" } else { API };
        let file = format!("{api}{block}{node}");
        let parsed = parse_controller(&file, "c.toml", &Environment::default());
        assert!(parsed.is_ok(), "{parsed:?} in\n{file}");
        blocks += 1;
    }
    assert_eq!(blocks, 7);
}
