//! Ends a call at its parties: a BYE to one or both, each in the name of the other party (RFC 3261 section 15.1.1).

use crate::WorkerParts;
use crate::owner::Owner;
use crate::routing::listener::{ListenerCriteria, flow_to};
use crate::routing::off_limits::{self, TargetSource};
use crate::routing::route::RouteSet;
use crate::routing::target::{Target, Way};
use sip_dialog::{Dialog, DialogId, Party, Text};
use sip_message::Uri;
use sip_transaction::{ClientOptions, Kind};
use sip_transport::Flow;

/// Which parties have been sent a BYE.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct HungUp {
    /// The caller.
    pub caller: bool,
    /// The callee.
    pub callee: bool,
}

/// Sends a BYE to each of these parties. A party whose next hop cannot be reached gets none. The responses change nothing: the dialog has
/// ended.
pub(super) fn hang_up(
    parts: &mut WorkerParts<'_>,
    id: DialogId,
    dialog: &Dialog,
    parties: &[Party],
    reason: &[u8],
) -> HungUp {
    if !dialog.can_hang_up() {
        return HungUp::default();
    }
    let mut send_to = |party| {
        let flow = flow_towards(parts, dialog, party).filter(|_| parties.contains(&party));
        flow.is_some_and(|flow| send(parts, id, dialog, (party, flow), reason))
    };
    HungUp {
        caller: send_to(Party::Caller),
        callee: send_to(Party::Callee),
    }
}

fn send(
    parts: &mut WorkerParts<'_>,
    id: DialogId,
    dialog: &Dialog,
    (party, flow): (Party, Flow),
    reason: &[u8],
) -> bool {
    let settings = parts.settings;
    let Some(listener) = settings.listeners.get(usize::from(flow.listener.0)) else {
        return false;
    };
    let Ok(client) = parts.transactions.reserve_client(Owner::Dialog(id)) else {
        parts.metrics.refused_full.increment();
        return false;
    };
    let branch = parts
        .transactions
        .branch(client, dialog.text(Text::CallId), 0);
    let options = ClientOptions::new(Kind::NonInvite, flow, listener.protocol.is_reliable());
    let via = |into: &mut Vec<u8>| {
        into.extend_from_slice(b"SIP/2.0/");
        into.extend_from_slice(listener.protocol.via_token().as_bytes());
        into.push(b' ');
        into.extend_from_slice(listener.advertised.as_bytes());
        into.extend_from_slice(b";branch=");
        branch.write(into);
        into.extend_from_slice(b";rport");
    };
    parts
        .transactions
        .start_client(parts.now, client, &options, parts.output, |into| {
            dialog.write_bye(into, party, reason, via);
        });
    true
}

/// The flow of a request to a party: to the first proxy of its route, or to its remote target. If that is a name, the flow over which
/// the INVITE was exchanged. The rules for the destinations of relayed requests apply.
fn flow_towards(parts: &WorkerParts<'_>, dialog: &Dialog, party: Party) -> Option<Flow> {
    let settings = parts.settings;
    let leg = dialog.leg(party);
    let target = Target {
        uri: dialog.target(party).into(),
        q: 1000,
        route: dialog.route(party).into(),
        next_hop: None,
        listener: None,
        flow: leg.is_by_flow.then_some(leg.flow),
        is_owned: false,
        instance: 0,
    };
    let routes = RouteSet::default();
    let hop = target.hop(&routes, &settings.listeners).ok()?;
    if hop.strict.is_some() {
        return None;
    }
    let flow = match (hop.flow, hop.way) {
        (Some(flow), _) => flow,
        (None, Way::Name(_)) => leg.flow,
        (None, Way::Address(remote)) => {
            let wanted = ListenerCriteria {
                target: None,
                recorded: Some(leg.flow.listener),
                incoming: leg.flow.listener,
                protocol: hop.protocol,
            };
            flow_to(&settings.listeners, wanted, remote)?
        }
    };
    // The party has been reached there before.
    let warrant = if flow.remote == leg.flow.remote {
        TargetSource::Owner
    } else {
        TargetSource::None
    };
    let source = dialog.leg(party.other()).flow.remote.ip();
    let listener = settings.listeners.get(usize::from(flow.listener.0))?;
    let is_secure = hop.is_secure || Uri::parse(&target.uri)?.scheme == sip_message::Scheme::Sips;
    let is_allowed = off_limits::admits(settings, Some(source), flow.remote, warrant);
    (is_allowed && (!is_secure || listener.protocol.is_secure())).then_some(flow)
}
