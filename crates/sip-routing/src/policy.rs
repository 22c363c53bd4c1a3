//! All that decides where new calls go.

use crate::gateway::Gateways;
use crate::limit::Limits;
use crate::prefix::PrefixTable;
use crate::rule::RuleSet;
use std::sync::Arc;

/// The policy of a configuration. By default, nothing is declared and nothing is limited.
#[derive(Debug, Default)]
pub struct Policy {
    /// Where calls may go.
    pub gateways: Gateways,
    /// Groups of gateways by the called number. They may be replaced more often than the rest.
    pub prefixes: Arc<PrefixTable>,
    /// How many calls there may be.
    pub limits: Limits,
    /// What happens to which request. The rules refer to the groups, tables and limits by their names.
    pub rules: RuleSet,
}

#[cfg(test)]
mod tests {
    use super::Policy;
    use crate::limit::Call;
    use crate::rule::{Arrival, Facts};
    use sip_message::Message;
    use sip_transport::{ListenerId, Protocol, Time};

    #[test]
    fn by_default_no_rule_matches_no_number_has_a_route_and_every_call_is_admitted() {
        let policy = Policy::default();
        let request = Message::parse(b"INVITE sip:1@h SIP/2.0\r\n\r\n").expect("a request");
        let source = [192, 0, 2, 1].into();
        let facts = Facts {
            request: &request,
            arrival: Some(Arrival {
                source,
                listener: ListenerId(0),
                protocol: Protocol::Udp,
            }),
        };
        assert!(policy.rules.first(&facts).is_none());
        assert!(policy.prefixes.lookup("default", b"49891").is_none());
        assert!(policy.gateways.gateways().is_empty());
        let call = Call {
            source,
            subscriber: Some(b"alice@h"),
            rule: None,
        };
        let permits = policy.limits.admit(&call, Time::default());
        assert_eq!(policy.limits.overall().stats().live, 1);
        drop(permits);
        assert_eq!(policy.limits.overall().stats().live, 0);
    }
}
