//! The interface that a program implements (the transaction user of RFC 3261 section 5).

use crate::Stack;
use sip_message::Message;
use sip_transaction::{ClientId, ServerId};
use sip_transport::Flow;

/// The program's side of the stack. The stack's loop calls it, never from two threads at once.
pub trait User: Send + Sized + 'static {
    /// Handles a request that is not a retransmission. Answer it with [`Stack::respond`], now or later. Do not answer an ACK.
    fn request(&mut self, stack: &mut Stack<'_>, request: &Request<'_, '_>);

    /// Handles a response to a request of this program. It is the last one of its transaction, unless it is provisional or a 2xx
    /// to an INVITE. The program acknowledges such a 2xx with an ACK ([`Stack::send`]).
    fn response(&mut self, stack: &mut Stack<'_>, client: ClientId, response: &Message<'_>) {
        let _ = (stack, client, response);
    }

    /// Handles the failure of a request of this program: it has had no final response, and there will be none.
    fn failed(&mut self, stack: &mut Stack<'_>, client: ClientId, failure: Failure) {
        let _ = (stack, client, failure);
    }

    /// Handles a timer that the program started with [`Stack::start_timer`].
    fn timer(&mut self, stack: &mut Stack<'_>, token: u64) {
        let _ = (stack, token);
    }

    /// Handles a CANCEL of this INVITE. The CANCEL has been answered; the program must answer the INVITE with 487.
    fn cancelled(&mut self, stack: &mut Stack<'_>, invite: ServerId) {
        let _ = (stack, invite);
    }
}

/// Why a request failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Failure {
    /// There was no response in time (Timer B or F).
    Timeout,
    /// The request could not be sent (section 18.4).
    Unreachable,
}

/// A request, and the data needed to answer it.
#[derive(Clone, Copy, Debug)]
pub struct Request<'r, 'm> {
    /// The request as received.
    pub message: &'r Message<'m>,
    /// The flow that it arrived on.
    pub flow: Flow,
    /// Its transaction; `None` for an ACK.
    pub server: Option<ServerId>,
}

impl<'m> std::ops::Deref for Request<'_, 'm> {
    type Target = Message<'m>;

    fn deref(&self) -> &Message<'m> {
        self.message
    }
}
