//! Rules as operators declare them, and the names that they may use.

use super::action::Authentication;
use sip_transport::{IpNet, Listener, Protocol};

/// A rule as declared. An absent condition holds for every request. A list holds if one of its entries does. All conditions must hold.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RuleDescription {
    /// Unique. It names the counter.
    pub name: String,
    /// Method tokens.
    pub method: Option<Vec<String>>,
    /// Names of networks, networks and addresses.
    pub source: Option<Vec<String>>,
    /// Listeners, as `transport:address`. The address may be a wildcard of the configuration.
    pub listener: Option<Vec<String>>,
    /// Transport protocols.
    pub transport: Option<Vec<Protocol>>,
    /// Patterns for the user of the Request-URI.
    pub user: Option<Vec<String>>,
    /// Patterns for the domain of the Request-URI.
    pub domain: Option<Vec<String>>,
    /// Patterns for the user of From.
    pub from_user: Option<Vec<String>>,
    /// Patterns for the domain of From.
    pub from_domain: Option<Vec<String>>,
    /// Patterns for the user of To.
    pub to_user: Option<Vec<String>>,
    /// Patterns for the domain of To.
    pub to_domain: Option<Vec<String>>,
    /// Header fields.
    pub header: Option<Vec<HeaderDescription>>,

    /// Decision: refuse the request.
    pub refuse: Option<RefusalDescription>,
    /// Decision: answer 302 with these URIs.
    pub redirect: Option<Vec<String>>,
    /// Decision: forward to a gateway group.
    pub group: Option<String>,
    /// Decision: look up the called number in a prefix table.
    pub prefixes: Option<String>,
    /// Decision: the ordinary way (registrar, location, next hop).
    pub local: bool,
    /// Decision: forward to this URI without a transaction.
    pub stateless: Option<String>,
    /// Decision: forward to a member of this gateway group without a transaction.
    pub balance: Option<String>,

    /// How the sender is authenticated; `None`: as without rules.
    pub authenticate: Option<Authentication>,
    /// Name of a limit, or [`EXEMPT`](crate::limit::EXEMPT).
    pub limit: Option<String>,
    /// Header fields to add to the forwarded request.
    pub add_header: Vec<FieldDescription>,
    /// Names of header fields to remove from it.
    pub remove_header: Vec<String>,
    /// Header fields to set in it.
    pub replace_header: Vec<FieldDescription>,
    /// How many characters to remove at the beginning of the user of the Request-URI.
    pub strip: u8,
    /// What to put in front of the user of the Request-URI, after `strip`.
    pub prefix: Option<String>,
}

/// A condition on a header field.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HeaderDescription {
    /// Name of the header field, long or compact.
    pub name: String,
    /// Pattern for a value; `None`: the header field exists.
    pub value: Option<String>,
}

/// A header field to write.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FieldDescription {
    /// Its name.
    pub name: String,
    /// Its value.
    pub value: String,
}

/// How a request is refused.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RefusalDescription {
    /// Status code, 300 to 699.
    pub status: u16,
    /// Reason phrase; `None`: that of the RFC.
    pub reason: Option<String>,
    /// Value of Retry-After, in seconds.
    pub retry_after: Option<u32>,
}

/// What rules may refer to.
#[derive(Clone, Copy, Debug, Default)]
pub struct KnownNames<'a> {
    /// Named networks.
    pub networks: &'a [(&'a str, &'a [IpNet])],
    /// Gateway groups.
    pub groups: &'a [&'a str],
    /// Prefix tables.
    pub prefixes: &'a [&'a str],
    /// Limits.
    pub limits: &'a [&'a str],
    /// The listeners of the server, or, for a check without a server, those of the configuration: a wildcard address then stands for
    /// every address of its family, and port 0 for every port.
    pub listeners: &'a [Listener],
}
