//! Nested and repeated sections, required keys and choices, with sections that only these tests have.
use crate::config::catalogue::{Changes, any, between, chapters, required};
use crate::config::declare::{choice, section};
use crate::config::section::{Section, differences};
use crate::config::values::duration::seconds;
use crate::config::write::to_toml;
use crate::config::{Environment, Mistakes, parse_section};
use std::time::Duration;

section! {
    /// A file.
    File {
        /// Gateways.
        section gateway: Vec<Gateway>;
        /// Media.
        section media: Relay;
    }
}

section! {
    /// A gateway.
    Gateway {
        /// Its name.
        reload name: String = "carrier".to_owned(), required();
        /// Where it is.
        inline next_hop: NextHop;
        /// Limits.
        section limits: Limits;
        /// Registration.
        section registration: Option<Registration>;
        /// Replicas.
        section replica: Vec<Replica>;
    }
}

section! {
    /// Limits of a gateway.
    Limits {
        /// Calls.
        reload calls: usize = 10, between(1, 100);
    }
}

section! {
    /// How the server registers with a gateway.
    Registration {
        /// How often.
        restart interval: Duration = seconds(60), any();
    }
}

section! {
    /// A replica.
    Replica {
        /// Its host.
        reload host: String = "a".to_owned(), required();
    }
}

choice! {
    /// Where a gateway is.
    NextHop {
        /// How its address is found.
        reload by = {
            /// From the request.
            Request = "request",
            /// By name.
            Name(ByName) = "name",
        }
    }
}

section! {
    /// A name.
    ByName {
        /// The domain.
        reload domain: String = "example.org".to_owned(), required();
    }
}

choice! {
    /// The media relay.
    Relay {
        /// Its type.
        restart type = {
            /// In this process.
            Internal(Internal) = "internal",
            /// Another program.
            External(External) = "external",
        }
    }
}

section! {
    /// The relay of this process.
    Internal {
        /// The first port.
        restart first_port: u16 = 10_000, any();
        /// Shared by both.
        reload timeout: Duration = seconds(30), any();
    }
}

section! {
    /// A relay in another program.
    External {
        /// Where it listens.
        restart url: String = "udp:127.0.0.1:2223".to_owned(), required();
        /// Shared by both.
        reload timeout: Duration = seconds(30), any();
    }
}

fn read(text: &str) -> Result<File, Vec<String>> {
    read_with(text, &[])
}

fn read_with(text: &str, variables: &[(&str, &str)]) -> Result<File, Vec<String>> {
    let environment: Environment = variables.iter().copied().collect();
    let parsed = parse_section(text, &environment, |_: &File, _| {});
    let mistakes = Mistakes {
        file: "t".to_owned(),
        list: parsed.mistakes,
    };
    if mistakes.list.is_empty() {
        Ok(parsed.section)
    } else {
        Err(mistakes.to_string().lines().map(str::to_owned).collect())
    }
}

const FULL: &str = r#"
[[gateway]]
name = "first"
by = "name"
domain = "carrier.example"

[gateway.limits]
calls = 20

[gateway.registration]

[[gateway.replica]]
host = "a"

[[gateway.replica]]
host = "b"

[[gateway]]
name = "second"
limits = { calls = 5 }

[media]
type = "external"
url = "udp:127.0.0.1:9"
"#;

#[test]
fn nested_repeated_and_chosen_sections_are_read_and_written_back() {
    let file = read(FULL).expect("it is right");
    let [first, second] = &file.gateway[..] else {
        panic!("{file:?}");
    };
    assert_eq!(
        first.next_hop,
        NextHop::Name(ByName {
            domain: "carrier.example".to_owned()
        })
    );
    assert_eq!(first.limits.calls, 20);
    assert_eq!(
        first.registration.as_ref().map(|section| section.interval),
        Some(seconds(60))
    );
    let hosts: Vec<&str> = first.replica.iter().map(|at| at.host.as_str()).collect();
    assert_eq!(hosts, ["a", "b"]);
    assert_eq!(second.next_hop, NextHop::Request);
    assert_eq!((second.limits.calls, &second.registration), (5, &None));
    let Relay::External(external) = &file.media else {
        panic!("{file:?}");
    };
    assert_eq!(external.url, "udp:127.0.0.1:9");
    let written = to_toml(&file.values(), &|_, line| line);
    assert_eq!(read(&written), Ok(file), "{written}");
}

#[test]
fn an_absent_section_has_its_defaults() {
    let file = read("").expect("it is right");
    assert_eq!(file, File::default());
    let Relay::Internal(internal) = file.media else {
        panic!("the first choice is the default");
    };
    assert_eq!(internal.first_port, 10_000);
}

#[test]
fn mistakes_in_nested_sections_are_told_with_their_place() {
    let rows: [(&str, &[&str]); 9] = [
        (
            "[[gateway]]\n[gateway.limits]\ncalls = 200",
            &[
                "t:1:1: `gateway[0].name` is missing: each [[gateway]] requires it: a single-line string",
                "t:3:9: `gateway[0].limits.calls = 200`: must be a whole number from 1 to 100",
            ],
        ),
        (
            "[[gateway]]\nname = \"a\"\n[gateway.limts]\ncalls = 2",
            &["t:3:10: unknown section [gateway.limts]: did you mean [gateway.limits]?"],
        ),
        (
            "[[gateway]]\nname = \"a\"\ncalls = 2",
            &["t:3:1: unknown key `calls` in [[gateway]]: it belongs in [gateway.limits]"],
        ),
        (
            "[[gateway]]\nname = \"a\"\n[[gateway.replica]]\nhst = \"b\"\nhost = \"b\"",
            &["t:4:1: unknown key `hst` in [[gateway.replica]]: did you mean `host`?"],
        ),
        (
            "[[gateway]]\nname = \"a\"\n[[gateway.limits]]\ncalls = 2",
            &["t:3:1: write the section `gateway.limits` as [gateway.limits]"],
        ),
        (
            "[[gateway]]\nname = \"a\"\nby = \"name\"",
            &[
                "t:3:6: `gateway[0].domain` is missing: `by = \"name\"` requires it: a single-line string",
            ],
        ),
        (
            "[[gateway]]\nname = \"a\"\nby = \"nam\"",
            &[
                "t:3:6: `gateway[0].by = \"nam\"`: must be one of \"request\" or \"name\" (did you mean \"name\"?)",
            ],
        ),
        (
            "[media]\ntype = \"internal\"\nurl = \"udp:127.0.0.1:9\"",
            &[
                "t:3:1: unknown key `url` in [media] with `type = \"internal\"`: it requires `type = \"external\"`",
            ],
        ),
        (
            "[media]\ntype = \"external\"\nulr = \"udp:127.0.0.1:9\"\nurl = \"a\"",
            &[
                "t:3:1: unknown key `ulr` in [media] with `type = \"external\"`: did you mean `url`?",
            ],
        ),
    ];
    for (text, expected) in rows {
        let found = read(text).expect_err(text);
        assert_eq!(found, expected, "for\n{text}");
    }
}

#[test]
fn variables_reach_nested_sections_but_not_repeated_ones() {
    let variables = [
        ("TANDEM_MEDIA_TYPE", "external"),
        ("TANDEM_MEDIA_URL", "udp:127.0.0.1:9"),
    ];
    let file = read_with("", &variables).expect("it is right");
    assert!(matches!(file.media, Relay::External(_)));
    assert_eq!(
        read_with(FULL, &[("TANDEM_GATEWAY_LIMITS_CALLS", "1")]),
        Err(vec![
            "TANDEM_GATEWAY_LIMITS_CALLS: unknown variable: only the file can set the keys of [[gateway]], which may occur several times"
                .to_owned()
        ])
    );
}

#[test]
fn differences_name_keys_of_nested_sections_and_repeated_sections_as_a_whole() {
    let of = |text: &str| read(text).expect(text).values();
    let found = |old: &str, new: &str| differences(&File::members(), &of(old), &of(new));
    let more_ports = "[media]\nfirst_port = 20_000";
    assert_eq!(
        found("", more_ports),
        [("media.first_port".to_owned(), Changes::Restart)]
    );
    assert_eq!(
        found("", "[media]\ntimeout = \"1s\""),
        [("media.timeout".to_owned(), Changes::Reload)]
    );
    let external = "[media]\ntype = \"external\"\nurl = \"a\"";
    assert_eq!(
        found("", external),
        ["media.type", "media.first_port", "media.url"]
            .map(|path| (path.to_owned(), Changes::Restart))
    );
    // One of its keys, the interval of a registration, needs a restart.
    assert_eq!(
        found("", "[[gateway]]\nname = \"a\""),
        [("gateway".to_owned(), Changes::Restart)]
    );
}

#[test]
fn a_key_of_several_choices_is_documented_once_with_all_of_them() {
    let chapters = chapters::<File>();
    let headers: Vec<&str> = chapters.iter().map(|it| it.header.as_str()).collect();
    let expected = [
        "",
        "[[gateway]]",
        "[gateway.limits]",
        "[gateway.registration]",
        "[[gateway.replica]]",
        "[media]",
    ];
    assert_eq!(headers, expected);
    let media = chapters.last().expect("a chapter");
    let keys: Vec<(&str, String)> = media
        .keys
        .iter()
        .map(|entry| (entry.key.name, entry.choices()))
        .collect();
    let (internal, external) = ("`type = \"internal\"`", "`type = \"external\"`");
    assert_eq!(
        keys,
        [
            ("type", String::new()),
            ("first_port", internal.to_owned()),
            ("timeout", format!("{internal} or {external}")),
            ("url", external.to_owned()),
        ]
    );
}
