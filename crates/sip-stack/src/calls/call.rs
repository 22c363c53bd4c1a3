//! The state of one call.

use super::dialog::Dialog;
use super::event::{CallEnd, Session};
use super::route::Hops;
use sip_message::digest::{Line, Wallet};
use sip_transaction::{ClientId, ServerId, TimerId};
use sip_transport::selection::Candidate;
use sip_transport::{Flow, Time};
use std::time::Duration;

/// ```text
///   Calling (our INVITE) ── 2xx: ACK ──┐                      ┌── BYE from the peer ──┐
///      │                               ├──▶ Up ── BYE ──▶ Ending ── final response ───┼──▶ Over
///   Ringing (their INVITE) ── 2xx ─────┘                                              │
///      └── final response, CANCEL, timeout ───────────────────────────────────────────┘
/// ```
/// `Over` has been reported. Such a call stays while retransmissions of a 2xx, or 2xx of other branches, may arrive.
#[derive(Debug)]
pub(crate) enum Stage {
    Calling(Box<Outgoing>),
    Ringing(Box<Incoming>),
    Up,
    /// The reason to report once the BYE is answered.
    Ending(CallEnd),
    Over,
}

/// A header field of the program: name and value.
pub(crate) type Field = (Box<str>, Box<str>);

/// Our INVITE before its final response.
#[derive(Debug)]
pub(crate) struct Outgoing {
    /// The Request-URI.
    pub(crate) uri: Box<[u8]>,
    /// Route, if there is an outbound proxy.
    pub(crate) routes: Vec<Box<[u8]>>,
    /// To.
    pub(crate) to: Box<[u8]>,
    /// Additional header fields of the program.
    pub(crate) fields: Vec<Field>,
    /// Candidates that have not been tried.
    pub(crate) hops: Hops,
    /// How often credentials have been sent.
    pub(crate) challenges: u8,
    /// The reason to report after our CANCEL.
    pub(crate) gives_up: Option<CallEnd>,
}

/// A peer's INVITE before our final response.
#[derive(Debug)]
pub(crate) struct Incoming {
    pub(crate) server: ServerId,
    pub(crate) flow: Flow,
    pub(crate) invite: Box<[u8]>,
}

/// Our 2xx that waits for its ACK (section 13.3.1.4).
#[derive(Debug)]
pub(crate) struct Unacknowledged {
    pub(crate) server: ServerId,
    pub(crate) cseq: u32,
    pub(crate) response: Box<[u8]>,
    /// When the response is sent again, and the interval before.
    pub(crate) again: Time,
    pub(crate) interval: Duration,
    pub(crate) until: Time,
}

/// One call.
#[derive(Debug)]
#[expect(clippy::struct_field_names, reason = "Call-ID is the RFC's name")]
pub(crate) struct Call {
    pub(crate) call_id: Box<[u8]>,
    /// Our From or To, with our tag.
    pub(crate) local: Box<[u8]>,
    pub(crate) local_tag: Box<[u8]>,
    /// The `CSeq` number of our INVITE.
    pub(crate) cseq: u32,
    pub(crate) stage: Stage,
    /// Our session description.
    pub(crate) session: Session,
    /// The dialogs: one, or one for each branch of a forked INVITE.
    pub(crate) dialogs: Vec<Dialog>,
    /// The dialog of the call, once it is answered.
    pub(crate) current: Option<usize>,
    pub(crate) wallet: Wallet,
    /// Credentials of the INVITE, which its ACK repeats (section 22.1).
    pub(crate) authorization: Vec<Line>,
    /// The transaction of our INVITE.
    pub(crate) invite: Option<ClientId>,
    /// Where our INVITE went.
    pub(crate) hop: Option<Candidate>,
    pub(crate) unacknowledged: Option<Unacknowledged>,
    /// The call is to end when the ACK has arrived.
    pub(crate) hangs_up: bool,
    /// When the current stage ends at the latest.
    pub(crate) until: Option<Time>,
    /// Until when a 2xx may arrive.
    pub(crate) lingers: Option<Time>,
    pub(crate) timer: Option<TimerId>,
}

impl Call {
    pub(crate) fn new(
        call_id: Box<[u8]>,
        (local, local_tag): (Box<[u8]>, Box<[u8]>),
        stage: Stage,
    ) -> Self {
        Self {
            call_id,
            local,
            local_tag,
            cseq: 1,
            stage,
            session: Session::none(),
            dialogs: Vec::new(),
            current: None,
            wallet: Wallet::default(),
            authorization: Vec::new(),
            invite: None,
            hop: None,
            unacknowledged: None,
            hangs_up: false,
            until: None,
            lingers: None,
            timer: None,
        }
    }

    /// The dialog with a peer that has this tag.
    pub(crate) fn dialog_with(&self, remote_tag: &[u8]) -> Option<usize> {
        let mut dialogs = self.dialogs.iter();
        dialogs.position(|dialog| *dialog.remote_tag == *remote_tag)
    }

    /// When something is due.
    pub(crate) fn next_deadline(&self) -> Option<Time> {
        let response = self.unacknowledged.as_ref();
        let response = response.map(|it| it.again.min(it.until));
        let lingers = self.lingers.filter(|_| matches!(self.stage, Stage::Over));
        [response, self.until, lingers].into_iter().flatten().min()
    }
}
