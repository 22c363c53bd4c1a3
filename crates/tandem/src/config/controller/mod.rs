//! The configuration of the controller (`tandem control`): a file of its own, read and described as that of the server.

mod sections;

pub use sections::*;

use super::catalogue::{Chapter, chapters};
use super::document::Document;
use super::{Environment, Mistakes, NO_FILE, parse_section, read_text};
use std::net::SocketAddr;
use std::path::Path;
use tandem_fleet::members::{self, Member};

/// Reads a file, or begins with the defaults if `file` is `None`; then applies the variables of `environment`.
///
/// # Errors
/// All errors in the file and in the environment.
pub fn load_controller(
    file: Option<&Path>,
    environment: &Environment,
) -> Result<ControllerConfiguration, Mistakes> {
    let (text, name) = match file {
        Some(path) => read_text(path)?,
        None => (String::new(), NO_FILE.to_owned()),
    };
    parse_controller(&text, &name, environment)
}

/// Parses the text of a file, whose name in messages is `file`.
///
/// # Errors
/// All errors in the text and in the environment.
pub fn parse_controller(
    text: &str,
    file: &str,
    environment: &Environment,
) -> Result<ControllerConfiguration, Mistakes> {
    let parsed = parse_section(text, environment, together);
    if parsed.mistakes.is_empty() {
        return Ok(parsed.section);
    }
    Err(Mistakes {
        file: file.to_owned(),
        list: parsed.mistakes,
    })
}

impl ControllerConfiguration {
    /// The chapters of the reference, in order.
    pub fn chapters() -> Vec<Chapter> {
        chapters::<Self>()
    }

    /// The nodes of a static fleet.
    pub fn listed(&self) -> Vec<Member> {
        let member = |listed: &ListedMember| {
            let name = listed.name.0.as_str();
            let instance = listed.instance.as_deref().unwrap_or(name);
            let admin = SocketAddr::new(listed.address.ip(), self.members.admin_port);
            Member {
                admin: Some(listed.admin.unwrap_or(admin)),
                ..Member::new(instance, name, listed.address)
            }
        };
        self.member.iter().map(member).collect()
    }
}

/// Reports invalid combinations of keys.
fn together(configuration: &ControllerConfiguration, document: &Document<'_>) {
    let members = &configuration.members;
    match &members.source {
        MemberSource::Static => {
            if let Err(problem) = members::check(&configuration.listed()) {
                let fix =
                    "list each node in a [[member]] section, or choose another `members.source`";
                document.report_at("member", format!("`[[member]]`: {problem}: {fix}"));
            }
        }
        source => {
            if source.word() == "api" && members.state_file.is_none() {
                document.report_at(
                    "members.source",
                    "`members.source = \"api\"`: requires `members.state_file`, because a controller that starts again would know no node"
                        .to_owned(),
                );
            }
            if !configuration.member.is_empty() {
                document.report_at(
                    "member[0]",
                    format!(
                        "`[[member]]`: not possible with `members.source = \"{}\"`",
                        source.word()
                    ),
                );
            }
        }
    }
}
