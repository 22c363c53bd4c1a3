//! The configuration of an edge: how it is read, and what follows from it.
use super::catalogue::{Changes, Chapter, chapters};
use super::sections::{Balancer, Configuration};
use super::{Environment, Mistakes, NO_FILE, check, parse_section, read_text};
use sip_transport::Listener;
use std::path::Path;
use tandem_balancer::{Member, Settings};
use tandem_fleet::members::instance_id;

/// Reads the configuration of an edge from a file and the environment of this process.
///
/// # Errors
/// All errors in both.
pub fn load_balancer(file: Option<&Path>) -> Result<Balancer, Mistakes> {
    let (text, name) = match file {
        Some(path) => read_text(path)?,
        None => (String::new(), NO_FILE.to_owned()),
    };
    parse_balancer(&text, &name, &Environment::of_process())
}

/// Parses the text of a file, whose name in messages is `file`.
///
/// # Errors
/// All errors in the text and in the environment.
pub fn parse_balancer(
    text: &str,
    file: &str,
    environment: &Environment,
) -> Result<Balancer, Mistakes> {
    let parsed = parse_section(text, environment, check::balancer);
    if parsed.mistakes.is_empty() {
        return Ok(parsed.section);
    }
    Err(Mistakes {
        file: file.to_owned(),
        list: parsed.mistakes,
    })
}

/// The section that a reload reads.
const RELOADED: &str = "member";

impl Balancer {
    /// The chapters of the reference, in order. An edge reads only its nodes again on a reload.
    pub fn chapters() -> Vec<Chapter> {
        let mut chapters = chapters::<Self>();
        chapters.retain(|chapter| !chapter.keys.is_empty());
        for chapter in chapters.iter_mut().filter(|it| it.path != RELOADED) {
            for entry in &mut chapter.keys {
                entry.key.changes = Changes::Restart;
            }
        }
        chapters
    }

    /// The sections that a server has too, in its configuration.
    pub fn shared(&self) -> Configuration {
        let own = self.clone();
        Configuration {
            listen: own.listen,
            certificate: own.certificate,
            tls: own.tls,
            workers: own.workers,
            overload: own.overload,
            dns: own.dns,
            udp: own.udp,
            connections: own.connections,
            admin: own.admin,
            log: own.log,
            ..Configuration::default()
        }
    }
}

/// The settings of an edge with these listeners.
pub fn balancer_settings(balancer: &Balancer, listeners: &[Listener]) -> Settings {
    let nodes = &balancer.nodes;
    let is_for_nodes = |listener: &Listener| nodes.listeners.contains(&listener.address);
    Settings {
        for_nodes: listeners.iter().map(is_for_nodes).collect(),
        record_route: nodes.record_route,
        largest_datagram: nodes.largest_datagram,
        probe_interval: nodes.probe_interval,
        probe_misses: nodes.probe_misses,
        ..Settings::new(listeners.to_vec())
    }
}

/// The nodes of the file.
pub fn member_list(balancer: &Balancer) -> Vec<Member> {
    let member = |node: &super::FleetMember| Member {
        identity: node.instance.clone(),
        number: instance_id(&node.instance),
        address: node.address,
        has_tcp: node.tcp,
        is_draining: node.draining,
    };
    balancer.member.iter().map(member).collect()
}
