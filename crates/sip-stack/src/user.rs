//! What a program does with what the stack tells it (the transaction user of RFC 3261 section 5).

use crate::Stack;
use sip_message::Message;
use sip_transaction::{ClientId, ServerId};
use sip_transport::Flow;

/// The program's part: called by the stack's loop, and never by two threads at once.
pub trait User: Send + Sized + 'static {
    /// A request that is no retransmission. It is answered with [`Stack::respond`], now or later; an ACK is not answered.
    fn request(&mut self, stack: &mut Stack<'_>, request: &Request<'_, '_>);

    /// A response to a request of ours; the last one of its transaction unless it is provisional or a 2xx to an INVITE, which is
    /// followed by an ACK from the program ([`Stack::send`]).
    fn response(&mut self, stack: &mut Stack<'_>, client: ClientId, response: &Message<'_>) {
        let _ = (stack, client, response);
    }

    /// A request of ours had no final response, and will have none.
    fn failed(&mut self, stack: &mut Stack<'_>, client: ClientId, failure: Failure) {
        let _ = (stack, client, failure);
    }

    /// The caller gave up the INVITE of this transaction. The CANCEL has been answered; the INVITE still wants its 487.
    fn cancelled(&mut self, stack: &mut Stack<'_>, invite: ServerId) {
        let _ = (stack, invite);
    }
}

/// Why a request of ours failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Failure {
    /// Nobody answered in time (Timer B or F).
    Timeout,
    /// It could not be sent (section 18.4).
    Unreachable,
}

/// A request and what is needed to answer it.
#[derive(Clone, Copy, Debug)]
pub struct Request<'r, 'm> {
    /// The request as received.
    pub message: &'r Message<'m>,
    /// Where it came from.
    pub flow: Flow,
    /// Its transaction; `None`: an ACK.
    pub server: Option<ServerId>,
}

impl<'m> std::ops::Deref for Request<'_, 'm> {
    type Target = Message<'m>;

    fn deref(&self) -> &Message<'m> {
        self.message
    }
}
