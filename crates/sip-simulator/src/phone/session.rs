//! Session timers of a phone (RFC 4028): what it asks for, what it agrees on, and when it refreshes or hangs up.
use super::call::{Call, CallId};
use super::client::Purpose;
use super::{Phone, PhoneEvent, PhoneOutput, earlier};
use sip_message::{HeaderName, Message, Method, Refresher, SessionInterval};
use sip_transport::Time;
use std::fmt::Write as _;
use std::time::Duration;

/// The pause before a refresh that another request delays, or that was rejected.
const PAUSE: Duration = Duration::from_secs(3);

/// How a phone that supports session timers uses them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SessionHabit {
    /// The interval that its INVITEs ask for, in seconds. `None`: it leaves this to the server.
    pub interval: Option<u32>,
    /// The shortest interval that its INVITEs accept, in seconds.
    pub min_se: Option<u32>,
    /// Lets the other phone refresh, if that one can.
    pub leaves_it_to_others: bool,
    /// Refreshes with UPDATE. Otherwise, with a re-INVITE.
    pub updates: bool,
    /// Never refreshes, and never hangs up because the other phone does not refresh.
    pub neglects: bool,
}

/// What a request says about its session.
#[derive(Clone, Debug)]
pub(crate) struct Offer {
    interval: Option<u32>,
    min_se: Option<u32>,
    refresher: Refresher,
}

impl Offer {
    /// The offer of an INVITE that begins a call.
    pub(crate) fn new(habit: &SessionHabit) -> Self {
        let interval = habit.interval;
        Self {
            interval: interval.map(|interval| interval.max(habit.min_se.unwrap_or(0))),
            min_se: habit.min_se,
            refresher: if habit.leaves_it_to_others {
                Refresher::Uas
            } else {
                Refresher::Uac
            },
        }
    }

    /// Accepts the Min-SE of a 422. Returns whether there is one.
    pub(crate) fn raise(&mut self, rejection: &Message<'_>) -> bool {
        let min_se = rejection.header(HeaderName::MinSe);
        let Some(min_se) = min_se.and_then(SessionInterval::parse) else {
            return false;
        };
        self.min_se = self.min_se.max(Some(min_se.seconds));
        self.interval = self.interval.max(self.min_se);
        true
    }

    /// Writes the header fields.
    pub(crate) fn write(&self, into: &mut String) {
        into.push_str("Supported: timer\r\n");
        if let Some(interval) = self.interval {
            let refresher = token(self.refresher);
            let _ = write!(
                into,
                "Session-Expires: {interval};refresher={refresher}\r\n"
            );
        }
        if let Some(min_se) = self.min_se {
            let _ = write!(into, "Min-SE: {min_se}\r\n");
        }
    }
}

/// What both phones have agreed on.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Session {
    seconds: u32,
    /// Whether this phone refreshes it.
    is_ours: bool,
    refresh_at: Option<Time>,
    /// When this phone hangs up.
    expires_at: Option<Time>,
}

impl Session {
    pub(crate) fn next_deadline(&self) -> Option<Time> {
        earlier(self.refresh_at, self.expires_at)
    }
}

impl Call {
    /// What a re-INVITE or UPDATE says: the same as before.
    fn session_offer(&self) -> Option<Offer> {
        self.session.map(|session| Offer {
            interval: Some(session.seconds),
            min_se: None,
            refresher: if session.is_ours {
                Refresher::Uac
            } else {
                Refresher::Uas
            },
        })
    }
}

impl Phone {
    /// Sends a re-INVITE.
    pub(crate) fn renegotiate(&mut self, now: Time, number: CallId, output: &mut PhoneOutput) {
        let purpose = Purpose::Reinvite(number);
        self.send_in_session(now, number, (Method::Invite, purpose), output);
    }

    /// Refreshes the session of a call or ends it, if it is time.
    pub(crate) fn watch_session(&mut self, now: Time, number: CallId, output: &mut PhoneOutput) {
        let due = |at: Option<Time>| at.is_some_and(|at| at <= now);
        let is_busy = self.has_open_reinvite(number);
        let updates = self.profile.session.is_some_and(|habit| habit.updates);
        let call = self.calls.iter_mut().find(|call| call.number == number);
        let Some(session) = call.and_then(|call| call.session.as_mut()) else {
            return;
        };
        if due(session.expires_at) {
            return self.hang_up(now, number, output);
        }
        if !due(session.refresh_at) {
            return;
        }
        session.refresh_at = is_busy.then_some(now + PAUSE);
        if is_busy {
            return;
        }
        let request = if updates {
            (Method::Update, Purpose::Update(number))
        } else {
            (Method::Invite, Purpose::Reinvite(number))
        };
        self.send_in_session(now, number, request, output);
    }

    fn send_in_session(
        &mut self,
        now: Time,
        number: CallId,
        (method, purpose): (Method<'static>, Purpose),
        output: &mut PhoneOutput,
    ) {
        let contact = self.contact();
        let call = self.calls.iter_mut().find(|call| call.number == number);
        if let Some(call) = call {
            let mut draft = call.draft(method, &contact);
            draft.session = call.session_offer();
            self.start_client(now, draft, purpose, output);
        }
    }

    /// Handles the 2xx to our INVITE, re-INVITE or UPDATE.
    pub(crate) fn session_agreed(
        &mut self,
        now: Time,
        number: CallId,
        response: &Message<'_>,
        output: &mut PhoneOutput,
    ) {
        let stated = response.header(HeaderName::SessionExpires);
        let stated = stated.and_then(SessionInterval::parse);
        let agreed = stated.map(|stated| (stated.seconds, stated.refresher()));
        let is_refreshed = agreed.is_some()
            && (self.calls.iter()).any(|call| call.number == number && call.session.is_some());
        if is_refreshed {
            output.events.push(PhoneEvent::SessionRefreshed);
        }
        let is_ours = |refresher| refresher != Some(Refresher::Uas);
        let agreed = agreed.map(|(seconds, refresher)| (seconds, is_ours(refresher)));
        self.begin_session(now, number, agreed);
    }

    /// Our refresh was rejected: tries again soon. The session may expire meanwhile.
    pub(crate) fn refresh_refused(&mut self, now: Time, number: CallId) {
        let call = self.calls.iter_mut().find(|call| call.number == number);
        if let Some(session) = call.and_then(|call| call.session.as_mut())
            && session.is_ours
        {
            session.refresh_at = Some(now + PAUSE);
        }
    }

    /// Accepts what an INVITE or UPDATE asks for (section 9), and returns the header fields of its 2xx.
    pub(crate) fn accept_session(
        &mut self,
        now: Time,
        number: CallId,
        request: &Message<'_>,
    ) -> String {
        let Some(habit) = self.profile.session else {
            return String::new();
        };
        let stated = request.header(HeaderName::SessionExpires);
        let Some(stated) = stated.and_then(SessionInterval::parse) else {
            self.begin_session(now, number, None);
            return String::new();
        };
        let refresher = match stated.refresher() {
            _ if !request.lists_token(HeaderName::Supported, b"timer") => Refresher::Uas,
            None if habit.leaves_it_to_others => Refresher::Uac,
            None => Refresher::Uas,
            Some(refresher) => refresher,
        };
        let agreed = (stated.seconds, refresher == Refresher::Uas);
        self.begin_session(now, number, Some(agreed));
        let require = match refresher {
            Refresher::Uac => "Require: timer\r\n",
            Refresher::Uas => "",
        };
        let (seconds, refresher) = (stated.seconds, token(refresher));
        format!("Supported: timer\r\nSession-Expires: {seconds};refresher={refresher}\r\n{require}")
    }

    /// Begins a session, or its next interval (section 10): this many seconds, and whether this phone refreshes it.
    fn begin_session(&mut self, now: Time, number: CallId, agreed: Option<(u32, bool)>) {
        let Some(habit) = self.profile.session else {
            return;
        };
        let session = agreed.map(|(seconds, is_ours)| {
            let interval = Duration::from_secs(seconds.into());
            let margin = (interval / 3).min(Duration::from_secs(32));
            let is_watched = !habit.neglects;
            Session {
                seconds,
                is_ours,
                refresh_at: (is_watched && is_ours).then(|| now + interval / 2),
                expires_at: is_watched.then(|| now + interval.saturating_sub(margin)),
            }
        });
        if let Some(call) = self.calls.iter_mut().find(|call| call.number == number) {
            call.session = session;
        }
    }
}

const fn token(refresher: Refresher) -> &'static str {
    match refresher {
        Refresher::Uac => "uac",
        Refresher::Uas => "uas",
    }
}
