//! A scripted phone: a SIP user agent of its own, so that its behaviour does not depend on the transaction layer under
//! test. It retransmits by the RFC's timers, authenticates, refreshes its registration, makes and takes calls, and
//! vanishes on request.
//!
//! Like everything here it is sans-IO: messages and time go in, messages and [`PhoneEvent`]s come out.

mod call;
mod client;
mod compose;
mod credentials;
mod mischief;
mod registration;
mod server;
mod session;

pub use mischief::Mischief;
pub use session::SessionHabit;

use crate::dice::Dice;
use call::Call;
use client::Client;
use credentials::Wallet;
use registration::Registration;
use server::Server;
use sip_message::{Message, Method};
use sip_transport::Time;
use std::net::SocketAddr;
use std::rc::Rc;
use std::time::Duration;

/// T1 of RFC 3261 section 17.1.1.1, the same for all phones.
pub(crate) const T1: Duration = Duration::from_millis(500);
/// T2.
pub(crate) const T2: Duration = Duration::from_secs(4);
/// T4.
pub(crate) const T4: Duration = Duration::from_secs(5);
/// Timers B, D, F, H: the longest wait.
pub(crate) const T1_64: Duration = Duration::from_secs(32);

/// How a phone handles an incoming call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answering {
    /// Rings (180), then accepts (200). If `after` is zero, it accepts at once and never rings.
    Accept {
        /// How long it rings.
        after: Duration,
    },
    /// Rings, then rejects with this status.
    Refuse {
        /// How long it rings.
        after: Duration,
        /// The status code, for example 486.
        status: u16,
    },
    /// Rings until it is cancelled.
    RingForEver,
    /// Sends no response.
    Silent,
    /// Rings, and responds to a CANCEL with 200 for the INVITE: the race of section 16.10, won by the callee.
    AcceptWhenCancelled,
}

/// The identity and behaviour of a phone.
#[derive(Clone, Debug)]
#[expect(clippy::struct_excessive_bools, reason = "each is a habit of its own")]
pub struct Profile {
    /// User part of its address of record.
    pub user: String,
    /// Domain.
    pub domain: String,
    /// Its password; an impostor has a wrong one.
    pub password: String,
    /// Its address.
    pub address: SocketAddr,
    /// Its registrar and outbound proxy.
    pub server: SocketAddr,
    /// The lifetime that it requests, in seconds.
    pub expires: u32,
    /// Uses SHA-256 if it is offered; MD5 otherwise.
    pub prefers_sha256: bool,
    /// Sends credentials without a challenge once it has a nonce.
    pub authorizes_unasked: bool,
    /// Names an unreachable address in Via, as behind a NAT, and asks for rport.
    pub hides_behind_rport: bool,
    /// Never acknowledges rejections.
    pub forgets_ack: bool,
    /// How it handles calls: one of these at random. The number is the weight.
    pub answering: Vec<(u32, Answering)>,
    /// As the callee, hangs up after this long.
    pub hangs_up_after: Option<Duration>,
    /// How it uses session timers; `None` if it does not support them.
    pub session: Option<SessionHabit>,
}

impl Profile {
    /// A well-behaved phone that registers for ten minutes and answers after two seconds.
    pub fn new(user: &str, domain: &str, address: SocketAddr, server: SocketAddr) -> Self {
        Self {
            user: user.to_owned(),
            domain: domain.to_owned(),
            password: Self::right_password(user),
            address,
            server,
            expires: 600,
            prefers_sha256: true,
            authorizes_unasked: false,
            hides_behind_rport: false,
            forgets_ack: false,
            answering: vec![(
                1,
                Answering::Accept {
                    after: Duration::from_secs(2),
                },
            )],
            hangs_up_after: None,
            session: None,
        }
    }

    /// The password that the registrar has for a user.
    pub fn right_password(user: &str) -> String {
        format!("secret of {user}")
    }

    /// `sip:user@domain`.
    pub fn uri(&self) -> String {
        format!("sip:{}@{}", self.user, self.domain)
    }

    /// `user@domain`.
    pub fn address_of_record(&self) -> String {
        format!("{}@{}", self.user, self.domain)
    }
}

/// A call to make.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CallPlan {
    /// The callee's SIP URI.
    pub to: String,
    /// Cancels after this long without an answer.
    pub patience: Duration,
    /// Hangs up after this long.
    pub talk: Duration,
    /// Sends a re-INVITE halfway.
    pub renegotiates: bool,
}

/// An instruction of the script to a phone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Action {
    /// Register, and refresh the registration.
    Register,
    /// Remove the registration.
    Unregister,
    /// Make a call.
    Call(CallPlan),
    /// Send a request outside any dialog: OPTIONS, MESSAGE and the like.
    Ask(&'static str, String),
    /// End all calls.
    HangUp,
    /// End all calls and start nothing new: no calls and no refreshes, whatever the script says later.
    Rest,
    /// Forget all state and fall silent.
    Vanish,
    /// Come back at another port.
    Return(u16),
    /// Misbehave.
    Mischief(Mischief),
}

/// An event that a phone reports.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PhoneEvent {
    /// A REGISTER was sent: until it ends, the phone does not know the registrar's state.
    RegistrationUncertain,
    /// The registrar confirmed the contact.
    Registered {
        /// The contact URI.
        contact: String,
        /// When it expires, in seconds since the Unix epoch.
        expires_at: u64,
    },
    /// The registrar confirmed that the contact is removed.
    Unregistered {
        /// The contact URI.
        contact: String,
    },
    /// A REGISTER was rejected. The previous state still holds.
    RegistrationFailed(u16),
    /// A transaction of the phone ended.
    Final {
        /// The request.
        method: Method<'static>,
        /// The final status code; 408 if there was no response.
        status: u16,
        /// Whether there was no response.
        timed_out: bool,
    },
    /// The caller received the 2xx of a call.
    CallAnswered,
    /// A call failed.
    CallFailed(u16),
    /// The callee's 2xx was acknowledged.
    CallAcknowledged,
    /// The callee's 2xx was never acknowledged, and the callee hung up.
    CallUnacknowledged,
    /// A call of this phone ended, with a BYE from the other side or with its own answered BYE.
    CallEnded,
    /// A session was refreshed (RFC 4028).
    SessionRefreshed,
    /// The phone vanished.
    Vanished,
}

/// The output of a phone.
#[derive(Debug, Default)]
pub struct PhoneOutput {
    /// Messages with their destinations.
    pub messages: Vec<(SocketAddr, Rc<[u8]>)>,
    /// Events.
    pub events: Vec<PhoneEvent>,
}

impl PhoneOutput {
    pub(crate) fn send(&mut self, to: SocketAddr, bytes: &Rc<[u8]>) {
        self.messages.push((to, Rc::clone(bytes)));
    }
}

/// A simulated phone.
#[derive(Debug)]
pub struct Phone {
    profile: Profile,
    dice: Dice,
    address: SocketAddr,
    alive: bool,
    resting: bool,
    wallet: Wallet,
    registration: Registration,
    clients: Vec<Client>,
    servers: Vec<Server>,
    calls: Vec<Call>,
    last_number: u64,
}

impl Phone {
    /// Creates a phone that has done nothing yet.
    pub fn new(profile: Profile, mut dice: Dice) -> Self {
        let registration = Registration::new(&mut dice);
        let address = profile.address;
        Self {
            wallet: Wallet::default(),
            profile,
            dice,
            address,
            alive: true,
            resting: false,
            registration,
            clients: Vec::new(),
            servers: Vec::new(),
            calls: Vec::new(),
            last_number: 0,
        }
    }

    /// Its identity and behaviour.
    pub const fn profile(&self) -> &Profile {
        &self.profile
    }

    /// Its current address.
    pub const fn address(&self) -> SocketAddr {
        self.address
    }

    /// Whether it receives messages.
    pub const fn is_alive(&self) -> bool {
        self.alive
    }

    /// Whether it is idle: it has no open request of its own, and no call.
    pub fn is_idle(&self) -> bool {
        self.calls.is_empty() && self.clients.iter().all(Client::is_over)
    }

    /// The number of its calls.
    pub fn calls(&self) -> usize {
        self.calls.len()
    }

    /// Its registration as it knows it: the contact, and the second when it expires.
    pub fn registered(&self) -> Option<(String, u64)> {
        self.registration.believed()
    }

    /// Performs an action.
    pub fn perform(&mut self, now: Time, action: Action, output: &mut PhoneOutput) {
        if action == Action::Rest {
            self.resting = true;
            self.registration.stop_refreshing();
            self.hang_up_all(now, output);
            return;
        }
        match action {
            Action::Return(port) if !self.alive => {
                self.alive = true;
                self.address.set_port(port);
            }
            _ if !self.alive => {}
            Action::Vanish => self.vanish(output),
            Action::HangUp => self.hang_up_all(now, output),
            _ if self.resting => {}
            Action::Register => self.register(now, self.profile.expires, output),
            Action::Unregister => self.register(now, 0, output),
            Action::Call(plan) => self.place_call(now, plan, output),
            Action::Ask(method, uri) => self.ask(now, method, uri, output),
            Action::Mischief(mischief) => self.misbehave(now, mischief, output),
            Action::Rest | Action::Return(_) => {}
        }
    }

    /// Processes a datagram.
    pub fn receive(&mut self, now: Time, from: SocketAddr, bytes: &[u8], output: &mut PhoneOutput) {
        if !self.alive {
            return;
        }
        let Ok(message) = Message::parse(bytes) else {
            return;
        };
        // Phones write text, so they cannot repeat other bytes exactly.
        if message.validate().is_err() || std::str::from_utf8(bytes).is_err() {
            return;
        }
        if message.is_request() {
            self.receive_request(now, from, &message, output);
        } else {
            self.receive_response(now, &message, output);
        }
    }

    /// Handles the time `next_deadline`.
    pub fn wake(&mut self, now: Time, output: &mut PhoneOutput) {
        if !self.alive {
            return;
        }
        self.wake_clients(now, output);
        self.wake_servers(now, output);
        self.wake_calls(now, output);
        if self.registration.refresh_due(now) {
            self.register(now, self.profile.expires, output);
        }
    }

    /// The time at which to call [`Phone::wake`] next.
    pub fn next_deadline(&self) -> Option<Time> {
        if !self.alive {
            return None;
        }
        let clients = self.clients.iter().filter_map(Client::next_deadline);
        let servers = self.servers.iter().filter_map(Server::next_deadline);
        let calls = self.calls.iter().filter_map(Call::next_deadline);
        clients
            .chain(servers)
            .chain(calls)
            .chain(self.registration.next_deadline())
            .min()
    }

    fn vanish(&mut self, output: &mut PhoneOutput) {
        self.alive = false;
        self.wallet = Wallet::default();
        self.registration = Registration::new(&mut self.dice);
        self.clients.clear();
        self.servers.clear();
        self.calls.clear();
        output.events.push(PhoneEvent::Vanished);
    }

    fn number(&mut self) -> u64 {
        self.last_number += 1;
        self.last_number
    }

    fn contact(&self) -> String {
        format!("sip:{}@{}", self.profile.user, self.address)
    }
}

/// The earlier of two optional deadlines.
pub(crate) fn earlier(one: Option<Time>, other: Option<Time>) -> Option<Time> {
    one.into_iter().chain(other).min()
}
