//! The gateways of a request: which one it tries, when it tries the next one, and what each outcome says about a gateway.
//!
//! A gateway is chosen when a branch is to be launched. All its candidates (RFC 3263) belong to that choice. The place there is given
//! back when the last candidate has failed; a 2xx passes it to the dialog.

use super::context::{Context, ContextScope};
use super::cursor::retry_after;
use super::gateway_credentials::Authorization;
use super::identity_headers::Trust;
use crate::routing::failure::Failure;
use crate::routing::target::{NextHop, Target};
use sip_message::{Message, Scheme, Uri, home_hash};
use sip_routing::gateway::{Gateway, Group, NoRates, Outcome, Place, Search, TriedSet};
use sip_transport::Time;
use sip_transport::selection::Destination;
use smallvec::SmallVec;
use std::io::Write as _;
use std::sync::Arc;

/// Parameters of a Request-URI that say how to reach its host. They do not apply to a gateway.
const OF_HOST: [&[u8]; 5] = [b"transport", b"maddr", b"ttl", b"lr", b"method"];

/// The gateways that a request may go to, and those that it has tried.
#[derive(Debug)]
pub(crate) struct GatewayRoute {
    /// The groups in their order.
    groups: Vec<Arc<Group>>,
    call_hash: u64,
    /// The Request-URI. Its host is replaced for each gateway.
    uri: Box<[u8]>,
    attempts: SmallVec<[Attempt; 1]>,
    state: State,
    /// The caller has received a session description from a gateway before the 2xx.
    has_early_media: bool,
}

/// A gateway that the request has been sent to.
#[derive(Debug)]
#[expect(clippy::struct_excessive_bools, reason = "four independent facts")]
struct Attempt {
    gateway: Arc<Gateway>,
    /// The first branch that belongs to it.
    first_branch: u8,
    /// Only calls take a place and are counted.
    is_call: bool,
    place: Option<Place>,
    /// When it was chosen.
    since: Time,
    /// A provisional response other than 100 has come from it.
    has_rung: bool,
    /// The gateway knows the outcome.
    is_reported: bool,
    /// A dialog has the place.
    is_answered: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// The next gateway may be chosen. The outcome if another one has failed.
    Open(Option<Outcome>),
    /// The last attempt is under way.
    Trying,
    /// No other gateway is tried.
    Closed,
}

impl GatewayRoute {
    /// A route over these groups in their order.
    pub(crate) fn new(groups: Vec<Arc<Group>>, call_id: &[u8], uri: Box<[u8]>) -> Self {
        Self {
            groups,
            call_hash: home_hash(call_id),
            uri,
            attempts: SmallVec::new(),
            state: State::Open(None),
            has_early_media: false,
        }
    }

    /// Chooses the next gateway. Branches from `first_branch` on belong to it. Only calls take a place and a part of its rate.
    fn choose(&mut self, now: Time, first_branch: u8, is_call: bool) -> Option<Target> {
        let search = self.search(now);
        let choice = if is_call {
            let choice = search.choose(&mut NoRates);
            choice.map(|it| (it.gateway, Some(it.place)))
        } else {
            search.first().map(|gateway| (gateway, None))
        };
        let Some((gateway, place)) = choice else {
            self.state = State::Closed;
            return None;
        };
        let gateway = Arc::clone(gateway);
        let target = target(&self.uri, &gateway);
        self.attempts.push(Attempt {
            gateway,
            first_branch,
            is_call,
            place,
            since: now,
            has_rung: false,
            is_reported: false,
            is_answered: false,
        });
        self.state = State::Trying;
        Some(target)
    }

    /// A search through the groups for a gateway that was not tried.
    fn search(&self, now: Time) -> Search<impl Iterator<Item = (&Group, TriedSet)> + Clone> {
        let has_tried = |gateway: &Arc<Gateway>| self.has_tried(gateway);
        let groups = self.groups.iter();
        let groups = groups.map(move |group| (&**group, group.those(has_tried)));
        Search::new(groups, self.call_hash, now)
    }

    /// Whether a gateway was tried, as a member of any group.
    fn has_tried(&self, gateway: &Arc<Gateway>) -> bool {
        let mut attempts = self.attempts.iter();
        attempts.any(|attempt| Arc::ptr_eq(&attempt.gateway, gateway))
    }

    /// Whether another gateway would take the request if the present one failed with this outcome.
    fn has_other(&self, outcome: Outcome, now: Time, most: usize) -> bool {
        let Some(attempt) = self.trying() else {
            return false;
        };
        let rules = attempt.gateway.failover();
        self.attempts.len() < most
            && rules.should_fail_over(outcome, self.has_early_media)
            && self.search(now).first().is_some()
    }

    /// Whether the request may have to be sent once more.
    fn may_repeat(&self) -> bool {
        let mut members = self.groups.iter().flat_map(|group| group.members());
        self.state != State::Closed && members.any(|(gateway, ..)| !self.has_tried(gateway))
    }

    /// The gateway that the request is sent to.
    pub(super) fn gateway(&self) -> Option<&Gateway> {
        self.trying().map(|attempt| &*attempt.gateway)
    }

    /// The gateway of this branch.
    fn gateway_of(&self, branch: u8) -> Option<&Gateway> {
        let mut attempts = self.attempts.iter().rev();
        let attempt = attempts.find(|attempt| attempt.first_branch <= branch)?;
        Some(&attempt.gateway)
    }

    fn trying(&self) -> Option<&Attempt> {
        let last = self.attempts.last();
        last.filter(|_| self.state == State::Trying)
    }

    fn trying_mut(&mut self) -> Option<&mut Attempt> {
        let last = self.attempts.last_mut();
        last.filter(|_| self.state == State::Trying)
    }

    /// Ends the present attempt. Without `goes_on`, it is the last one.
    fn end(&mut self, outcome: Outcome, goes_on: bool, now: Time) {
        let has_early_media = self.has_early_media;
        let Some(attempt) = self.trying_mut() else {
            return;
        };
        attempt.report(outcome, now);
        attempt.place = None;
        let rules = attempt.gateway.failover();
        self.state = if goes_on && rules.should_fail_over(outcome, has_early_media) {
            State::Open(Some(outcome))
        } else {
            State::Closed
        };
    }

    /// Handles a 2xx in this branch. Returns the place that the dialog gets, and the name of the gateway. A gateway that was given up may
    /// still answer.
    pub(super) fn answered(
        &mut self,
        branch: u8,
        status: u16,
        now: Time,
    ) -> Option<(Place, &Arc<Gateway>)> {
        let attempts = self.attempts.iter_mut();
        let attempt = attempts
            .rev()
            .find(|attempt| attempt.first_branch <= branch)?;
        attempt.report(Outcome::status(status), now);
        if attempt.is_answered {
            return None;
        }
        attempt.is_answered = true;
        let place = attempt.place.take();
        let place = place.unwrap_or_else(|| attempt.gateway.occupy());
        Some((place, &attempt.gateway))
    }
}

impl Attempt {
    /// How long it may go on: until its first response other than 100, then until its final one.
    fn ends_at(&self) -> Option<Time> {
        let wait = self.gateway.wait();
        let response = (!self.has_rung).then_some(wait.response);
        let longest = response.into_iter().chain(wait.answer).min()?;
        Some(self.since + longest)
    }

    /// Whether it has rung for longer than its gateway allows.
    fn is_unanswered(&self, now: Time) -> bool {
        self.has_rung && self.ends_at().is_some_and(|end| end <= now)
    }

    /// Reports the first final outcome.
    fn report(&mut self, outcome: Outcome, now: Time) {
        if !self.is_reported {
            self.is_reported = true;
            if self.is_call {
                self.gateway.call_ended(outcome, now);
            } else {
                self.gateway.request_ended(outcome, now);
            }
        }
    }
}

impl Context {
    fn gateways(&self) -> Option<&GatewayRoute> {
        self.policy.as_ref()?.route.as_ref()
    }

    fn gateways_mut(&mut self) -> Option<&mut GatewayRoute> {
        self.policy.as_mut()?.route.as_mut()
    }

    /// Who is trusted besides the trusted peers, for a copy that is about to be sent.
    pub(super) fn trust_ahead(&self) -> Trust {
        let gateway = self.gateways().and_then(GatewayRoute::gateway);
        self.trust_with(gateway)
    }

    /// Who is trusted besides the trusted peers, for a response from this branch.
    pub(super) fn trust_of(&self, branch: u8) -> Trust {
        let gateway = self.gateways().and_then(|route| route.gateway_of(branch));
        self.trust_with(gateway)
    }

    /// Who is trusted besides the trusted peers, if the request goes to this gateway.
    fn trust_with(&self, gateway: Option<&Gateway>) -> Trust {
        self.dialog.trust().unwrap_or_else(|| Trust {
            sender: self.policy.as_ref().is_some_and(|it| it.is_trusted),
            receiver: gateway.is_some_and(Gateway::is_trusted),
        })
    }

    /// Whether the sender is trusted besides the trusted peers.
    pub(super) fn has_trusted_sender(&self) -> bool {
        self.trust_with(None).sender
    }

    /// Adds the target of the next gateway, if there is one for the request.
    pub(super) fn choose_gateway(&mut self, scope: &ContextScope<'_, '_>) -> bool {
        let is_wanted = !self.is_concluded && self.cancelled_by.is_none();
        let first_branch = self.branches.len().min(usize::from(u8::MAX)) as u8;
        let most = scope.parts.settings.proxy.max_targets.max(1);
        let is_invite = self.is_invite;
        let Some(route) = self.gateways_mut() else {
            return false;
        };
        let State::Open(reason) = route.state else {
            return false;
        };
        if !is_wanted || route.attempts.len() >= most {
            return false;
        }
        let failed = route.attempts.last().map(|it| Arc::clone(&it.gateway));
        let Some(target) = route.choose(scope.parts.now, first_branch, is_invite) else {
            self.note_failure(Failure::NoGateway);
            return false;
        };
        if let Some((gateway, outcome)) = failed.zip(reason)
            && is_invite
        {
            gateway.failed_over(outcome);
        }
        self.authorize_at_gateway(&target);
        self.targets.push(target);
        true
    }

    /// Prepares for the challenge of the gateway that has just been chosen.
    fn authorize_at_gateway(&mut self, target: &Target) {
        let attempt = self.gateways().and_then(GatewayRoute::trying);
        let authorization =
            attempt.and_then(|attempt| Authorization::new(&attempt.gateway, target, true));
        if let Some(policy) = &mut self.policy {
            policy.authorization = authorization;
        }
    }

    /// Whether another gateway is chosen when nothing is pending.
    pub(super) fn wants_gateway(&self) -> bool {
        self.gateways()
            .is_some_and(|route| matches!(route.state, State::Open(_)))
    }

    /// Whether the request goes to gateways.
    pub(super) fn goes_to_gateways(&self) -> bool {
        self.gateways().is_some()
    }

    /// Whether another gateway can replace the present one if that stays silent.
    pub(super) fn has_other_gateway(&self, scope: &ContextScope<'_, '_>) -> bool {
        let most = scope.parts.settings.proxy.max_targets;
        let route = self.gateways();
        route.is_some_and(|route| route.has_other(Outcome::Timeout, scope.parts.now, most))
    }

    /// When the attempt that this branch belongs to has to end, if it is the present one.
    pub(super) fn gateway_deadline(&self, branch: u8) -> Option<Time> {
        let attempt = self.gateways()?.trying()?;
        let is_of = attempt.first_branch <= branch;
        attempt.ends_at().filter(|_| is_of && self.is_invite)
    }

    /// Whether the request may have to be sent to another gateway.
    pub(super) fn may_repeat_to_gateway(&self) -> bool {
        self.gateways().is_some_and(GatewayRoute::may_repeat)
    }

    /// Notes that the present gateway has sent a provisional response other than 100.
    pub(super) fn note_gateway_rings(&mut self, branch: u8) {
        if let Some(attempt) = self.gateways_mut().and_then(GatewayRoute::trying_mut)
            && attempt.first_branch <= branch
        {
            attempt.has_rung = true;
        }
    }

    /// Notes that the caller has received a provisional response with a session description.
    pub(super) fn note_early_media(&mut self, response: &Message<'_>) {
        if !response.body().is_empty()
            && let Some(route) = self.gateways_mut()
        {
            route.has_early_media = true;
        }
    }

    /// Ends the attempt at a gateway without a response. `branch` is `None` if it was not even sent.
    pub(super) fn gateway_failed(
        &mut self,
        scope: &ContextScope<'_, '_>,
        branch: Option<u8>,
        failure: Failure,
    ) {
        let is_unwanted = self.cancelled_by.is_some() || self.is_concluded;
        let Some(attempt) = self.gateways().and_then(GatewayRoute::trying) else {
            return;
        };
        let outcome = if failure == Failure::Timeout
            && !is_unwanted
            && attempt.is_unanswered(scope.parts.now)
        {
            Outcome::Unanswered
        } else {
            outcome_of(failure, attempt.has_rung || is_unwanted)
        };
        self.end_gateway(scope, branch, outcome);
    }

    /// Ends the attempt at a gateway with its final response.
    pub(super) fn gateway_refused(
        &mut self,
        scope: &ContextScope<'_, '_>,
        branch: u8,
        response: &Message<'_>,
    ) {
        let outcome = Outcome::Response {
            status: response.status(),
            retry_after: retry_after(response),
        };
        self.end_gateway(scope, Some(branch), outcome);
    }

    fn end_gateway(&mut self, scope: &ContextScope<'_, '_>, branch: Option<u8>, outcome: Outcome) {
        let goes_on = !self.is_concluded && self.cancelled_by.is_none();
        let Some(route) = self.gateways_mut() else {
            return;
        };
        let is_of = |attempt: &Attempt| branch.is_none_or(|branch| attempt.first_branch <= branch);
        if route.trying().is_some_and(is_of) {
            route.end(outcome, goes_on, scope.parts.now);
        }
    }

    /// Ends an attempt whose outcome will not be known.
    pub(super) fn leave_gateway(&mut self, now: Time) {
        if let Some(route) = self.gateways_mut() {
            route.end(Outcome::Abandoned, false, now);
        }
    }

    /// Keeps the failure of a request that may be too large for datagrams from counting against its gateway.
    pub(super) fn excuse_gateway(&mut self, now: Time) {
        if let Some(attempt) = self.gateways_mut().and_then(GatewayRoute::trying_mut) {
            attempt.report(Outcome::Abandoned, now);
        }
    }
}

/// What a failure says about the gateway. What the caller can bring about says nothing: a CANCEL, a phone that rings for too long, a URI
/// that needs TLS.
const fn outcome_of(failure: Failure, is_excused: bool) -> Outcome {
    match failure {
        Failure::Timeout if is_excused => Outcome::Abandoned,
        Failure::Timeout => Outcome::Timeout,
        Failure::Unreachable | Failure::Unlocated | Failure::Unresolved | Failure::Gone => {
            Outcome::TransportError
        }
        Failure::Unauthorized => Outcome::Unauthorized,
        Failure::Overloaded
        | Failure::UnsupportedScheme
        | Failure::BadRoute
        | Failure::OffLimits
        | Failure::NotSecure
        | Failure::NoGateway
        | Failure::NotDiverted
        | Failure::DivertedInCircle
        | Failure::DivertedTooOften
        | Failure::Cancelled => Outcome::Abandoned,
    }
}

/// The Request-URI towards a gateway, with the called number as it wants it.
pub(crate) fn request_uri_at(uri: &[u8], gateway: &Gateway) -> Box<[u8]> {
    uri_at(&gateway.rewriting().called(uri), gateway.destination())
}

fn target(uri: &[u8], gateway: &Gateway) -> Target {
    let destination = gateway.destination();
    Target {
        uri: request_uri_at(uri, gateway),
        q: 1000,
        route: Box::default(),
        next_hop: Some(NextHop::Server(destination.clone())),
        listener: None,
        flow: None,
        is_owned: false,
        instance: 0,
    }
}

/// The Request-URI towards a gateway: the called number, and the host and port of the gateway, as carriers expect. A `tel` URI becomes a
/// `sip` URI (RFC 3261 section 19.1.6). A URI without a host, such as `urn:service:sos`, stays as it is.
fn uri_at(uri: &[u8], destination: &Destination) -> Box<[u8]> {
    let Some(parsed) = Uri::parse(uri) else {
        return uri.into();
    };
    let scheme: &[u8] = match parsed.scheme {
        Scheme::Sip | Scheme::Tel => b"sip:",
        Scheme::Sips => b"sips:",
        Scheme::Other(_) => return uri.into(),
    };
    let is_tel = parsed.scheme == Scheme::Tel;
    let mut at = Vec::with_capacity(uri.len() + destination.host.len() + 16);
    at.extend_from_slice(scheme);
    if let Some(user) = parsed.user {
        at.extend_from_slice(user);
        if is_tel {
            at.extend_from_slice(parsed.params.as_bytes());
        }
        at.push(b'@');
    }
    at.extend_from_slice(destination.host.as_bytes());
    if let Some(port) = destination.port {
        // Writing to a vector cannot fail.
        let _ = write!(at, ":{port}");
    }
    if is_tel {
        at.extend_from_slice(b";user=phone");
        return at.into();
    }
    for (name, value) in parsed.params.iter() {
        if OF_HOST.iter().any(|other| name.eq_ignore_ascii_case(other)) {
            continue;
        }
        at.push(b';');
        at.extend_from_slice(name);
        if let Some(value) = value {
            at.push(b'=');
            at.extend_from_slice(value);
        }
    }
    at.into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_number_stays_and_the_host_becomes_that_of_the_gateway() {
        let destination = |text: &str| {
            let uri = Uri::parse(text.as_bytes()).expect("a URI");
            Destination::of_uri(&uri).expect("a destination")
        };
        for (uri, at, expected) in [
            (
                "sip:+4989@example.org;user=phone",
                "sip:192.0.2.50",
                "sip:+4989@192.0.2.50;user=phone",
            ),
            (
                "sip:49:secret@example.org:5070;transport=tcp;maddr=192.0.2.9;x=1?a=b",
                "sip:gw.example.net:5080;transport=tls",
                "sip:49@gw.example.net:5080;x=1",
            ),
            ("sips:49@h", "sip:[2001:db8::1]", "sips:49@[2001:db8::1]"),
            (
                "tel:+4989;ext=2",
                "sip:192.0.2.50",
                "sip:+4989;ext=2@192.0.2.50;user=phone",
            ),
            (
                "sip:49;rn=+1@h",
                "sip:192.0.2.50",
                "sip:49;rn=+1@192.0.2.50",
            ),
            ("sip:h", "sip:192.0.2.50", "sip:192.0.2.50"),
            ("urn:service:sos", "sip:192.0.2.50", "urn:service:sos"),
        ] {
            let written = uri_at(uri.as_bytes(), &destination(at));
            assert_eq!(String::from_utf8_lossy(&written), expected, "{uri}");
        }
    }
}
