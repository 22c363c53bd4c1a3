//! The generated documents are those in the repository, and their examples are valid files.
use super::*;

const ROOT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");

/// Compares a committed file with the generated text; `WRITE_DOCS=1` writes the file.
fn committed(path: &str, made: &str) {
    let path = format!("{ROOT}/{path}");
    if std::env::var_os("WRITE_DOCS").is_some() {
        std::fs::write(&path, made).expect("the file is written");
    }
    let committed = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(
        committed == made,
        "{path} differs from the catalogue: run the tests once with WRITE_DOCS=1"
    );
}

#[test]
fn the_reference_is_the_one_the_catalogue_makes() {
    committed("docs/configuration.md", &reference());
}

#[test]
fn the_reference_of_the_controller_is_the_one_the_catalogue_makes() {
    committed("docs/controller-configuration.md", &controller_reference());
}

#[test]
fn the_reference_and_the_example_of_an_edge_are_those_the_catalogue_makes() {
    committed("docs/edge-configuration.md", &edge_reference());
    committed("edge.example.toml", &edge_example());
}

#[test]
fn the_page_of_the_metrics_of_an_edge_is_made_of_their_descriptions() {
    committed("docs/edge-metrics.md", &crate::balance::metrics_reference());
}

const A_NODE: &str = "[[member]]\ninstance = \"sip-9\"\naddress = \"192.0.2.9:5060\"\n";

fn of_edge(text: &str) -> Balancer {
    let parsed = parse_balancer(text, "edge.toml", &Environment::default());
    parsed.unwrap_or_else(|mistakes| panic!("{mistakes} in\n{text}"))
}

#[test]
fn every_example_in_the_reference_of_an_edge_is_a_valid_file() {
    let page = edge_reference();
    let blocks = page.split("```toml\n").skip(1);
    let blocks: Vec<&str> = blocks
        .filter_map(|block| block.split("```").next())
        .collect();
    assert_eq!(blocks.len(), Balancer::chapters().len());
    for block in blocks {
        let names_nodes = ["[[member]]", "[nodes]"].map(|header| block.starts_with(header));
        let node = if names_nodes.contains(&true) {
            ""
        } else {
            A_NODE
        };
        of_edge(&format!("{block}{node}"));
    }
}

#[test]
fn the_example_of_an_edge_means_the_defaults() {
    assert_eq!(
        of_edge(&format!("{}{A_NODE}", edge_example())),
        of_edge(A_NODE)
    );
}

#[test]
fn only_the_nodes_of_an_edge_change_on_a_reload() {
    for chapter in Balancer::chapters() {
        for entry in chapter.keys {
            let is_reloaded = entry.key.changes == Changes::Reload;
            assert_eq!(is_reloaded, chapter.path == "member", "{}", entry.key.name);
        }
    }
}

#[test]
fn the_example_file_is_the_one_the_catalogue_makes() {
    committed("tandem.example.toml", &example());
}

/// What the examples of some sections refer to.
const NEEDED: [(&str, &str); 3] = [
    (
        "[[group]]",
        "[[gateway]]\nname = \"berlin-1\"\ndestination = \"sip:192.0.2.10\"\n",
    ),
    (
        "[[limit]]",
        "[[network]]\nname = \"carrier-a\"\naddresses = [\"192.0.2.7\"]\n",
    ),
    (
        "[[rule]]",
        "[[network]]\nname = \"carrier-a\"\naddresses = [\"192.0.2.7\"]\n[[limit]]\nname = \"customer-7\"\nmax_calls = 30\n",
    ),
];

#[test]
fn every_example_in_the_reference_is_a_valid_file() {
    let page = reference();
    let mut blocks = 0;
    for block in page.split("```toml\n").skip(1) {
        let block = block.split("```").next().unwrap_or_default();
        let needed = NEEDED.iter().find(|(header, _)| block.starts_with(header));
        let file = needed.map_or("", |(_, text)| text).to_owned() + block;
        assert_eq!(mistakes(&file), [] as [&str; 0], "in\n{file}");
        blocks += 1;
    }
    assert_eq!(blocks, Configuration::chapters().len());
}

#[test]
fn the_example_file_means_the_defaults_as_it_is_and_uncommented() {
    let file = example();
    assert_eq!(parse(&file).expect("right"), parse("").expect("right"));
    // A section that may occur several times does not occur by default, except `listen`.
    let (absent_ones, chapters): (Vec<Chapter>, Vec<Chapter>) = Configuration::chapters()
        .into_iter()
        .partition(|chapter| chapter.header.starts_with("[[") && chapter.path != "listen");
    let keys = chapters.iter().flat_map(|chapter| {
        let keys = chapter.keys.iter();
        keys.map(|entry| (chapter.header.as_str(), entry))
    });
    // Keys without a default, and keys of choices other than the default.
    let optional: Vec<(&str, &str)> = keys
        .filter(|(_, entry)| entry.key.default.is_none() || !entry.when.is_empty())
        .map(|(header, entry)| (header, entry.key.name))
        .collect();
    // A section without defaults exists only if the file contains it.
    let absent: Vec<String> = chapters
        .iter()
        .filter(|chapter| {
            let mut keys = chapter.keys.iter();
            keys.all(|entry| entry.key.default.is_none())
        })
        .map(|chapter| chapter.header.clone())
        .collect();
    let mut here = "";
    let uncommented: String = file
        .lines()
        .skip_while(|line| !line.is_empty())
        .filter_map(|line| line.strip_prefix("# "))
        .filter(|line| {
            if line.starts_with('[') {
                here = line;
            }
            let is_optional = |(header, name): &(&str, &str)| {
                *header == here && line.starts_with(&format!("{name} ="))
            };
            !absent_ones.iter().any(|chapter| chapter.header == here)
                && !optional.iter().any(is_optional)
        })
        .filter(|line| !line.starts_with('-') && !absent.iter().any(|header| line == header))
        .fold(String::new(), |all, line| all + line + "\n");
    assert_eq!(
        parse(&uncommented).expect("right"),
        parse("").expect("right")
    );
    assert_eq!(
        uncommented.lines().count(),
        chapters
            .iter()
            .map(|chapter| chapter.keys.len() + 1)
            .sum::<usize>()
            - 1
            - absent.len()
            - optional.len()
            // The second listener: its header, transport, address and proxy_protocol.
            + 4
    );
}
