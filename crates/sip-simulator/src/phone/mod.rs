//! A scripted phone: a SIP user agent of its own making, so that what it does does not depend on the transaction
//! layer under test. It retransmits by the RFC's timers, authenticates, keeps its registration fresh, makes and
//! takes calls, and can be told to vanish.
//!
//! Sans-IO like everything else here: messages and time go in, messages and [`PhoneEvent`]s come out.

mod call;
mod client;
mod compose;
mod credentials;
mod mischief;
mod registration;
mod server;

pub use mischief::Mischief;

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

/// T1 of RFC 3261 section 17.1.1.1, as every phone has it.
pub(crate) const T1: Duration = Duration::from_millis(500);
/// T2.
pub(crate) const T2: Duration = Duration::from_secs(4);
/// T4.
pub(crate) const T4: Duration = Duration::from_secs(5);
/// Timers B, D, F, H: the end of all patience.
pub(crate) const T1_64: Duration = Duration::from_secs(32);

/// What a phone does with a call that comes in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answering {
    /// Rings (180), then accepts (200). With zero `after` it accepts at once and never rings.
    Accept {
        /// How long it rings.
        after: Duration,
    },
    /// Rings, then refuses with this status.
    Refuse {
        /// How long it rings.
        after: Duration,
        /// For example 486.
        status: u16,
    },
    /// Rings until it is cancelled.
    RingForEver,
    /// Says nothing at all.
    Silent,
    /// Rings, and answers a CANCEL with 200 for the INVITE: the race of section 16.10, won by the callee.
    AcceptWhenCancelled,
}

/// Who a phone is and how it behaves.
#[derive(Clone, Debug)]
#[expect(clippy::struct_excessive_bools, reason = "each is a habit of its own")]
pub struct Profile {
    /// User part of its address of record.
    pub user: String,
    /// Domain.
    pub domain: String,
    /// What it knows as its password; a wrong one makes an impostor.
    pub password: String,
    /// Where it is.
    pub address: SocketAddr,
    /// Its registrar and outbound proxy.
    pub server: SocketAddr,
    /// The lifetime it asks for, in seconds.
    pub expires: u32,
    /// Uses SHA-256 where offered; MD5 otherwise.
    pub prefers_sha256: bool,
    /// Sends credentials without being asked once it has a nonce.
    pub authorizes_unasked: bool,
    /// Names an address in Via where nobody can reach it, as behind a translator, and asks for rport.
    pub hides_behind_rport: bool,
    /// Never acknowledges refusals.
    pub forgets_ack: bool,
    /// What it does with calls: one of these, the first number being the weight.
    pub answering: Vec<(u32, Answering)>,
    /// A callee hangs up after this long by itself.
    pub hangs_up_after: Option<Duration>,
}

impl Profile {
    /// A well-behaved phone: registers for ten minutes, answers after two seconds.
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
        }
    }

    /// The password that the registrar knows of a user.
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

/// A call to be made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CallPlan {
    /// Whom: a SIP URI.
    pub to: String,
    /// Gives up with CANCEL after this long without an answer.
    pub patience: Duration,
    /// Hangs up after this long.
    pub talk: Duration,
    /// Sends a re-INVITE half-way.
    pub renegotiates: bool,
}

/// What a script tells a phone to do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Action {
    /// Register, and keep the registration fresh.
    Register,
    /// Remove the registration.
    Unregister,
    /// Make a call.
    Call(CallPlan),
    /// Send a request outside any dialog: OPTIONS, MESSAGE and the like.
    Ask(&'static str, String),
    /// End all calls.
    HangUp,
    /// End all calls, and begin nothing new: no calls, no refreshes, whatever the script still says.
    Rest,
    /// Forget everything and fall silent.
    Vanish,
    /// Come back, at another port.
    Return(u16),
    /// Do what no phone should.
    Mischief(Mischief),
}

/// What a phone learned.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PhoneEvent {
    /// A REGISTER left: until its end the phone does not know what the registrar believes.
    RegistrationUncertain,
    /// The registrar confirmed the contact until then.
    Registered {
        /// Its URI.
        contact: String,
        /// Unix seconds.
        expires_at: u64,
    },
    /// The registrar confirmed that the contact is gone.
    Unregistered {
        /// Its URI.
        contact: String,
    },
    /// A REGISTER was refused; what was believed before still holds.
    RegistrationFailed(u16),
    /// A transaction of the phone ended with this status; 408 of its own making when nobody answered.
    Final {
        /// The request.
        method: Method<'static>,
        /// How it ended.
        status: u16,
        /// Whether nobody answered.
        timed_out: bool,
    },
    /// A call came about: the caller has the 2xx.
    CallAnswered,
    /// A call did not come about.
    CallFailed(u16),
    /// The callee's 2xx was acknowledged.
    CallAcknowledged,
    /// The callee's 2xx was never acknowledged; it hung up.
    CallUnacknowledged,
    /// One's own call ended with a BYE from the other side, or with one's own that was answered.
    CallEnded,
    /// The phone vanished.
    Vanished,
}

/// What a phone puts out.
#[derive(Debug, Default)]
pub struct PhoneOutput {
    /// Messages, with where they go.
    pub messages: Vec<(SocketAddr, Rc<[u8]>)>,
    /// What it learned.
    pub events: Vec<PhoneEvent>,
}

impl PhoneOutput {
    pub(crate) fn send(&mut self, to: SocketAddr, bytes: &Rc<[u8]>) {
        self.messages.push((to, Rc::clone(bytes)));
    }
}

/// A phone.
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
    /// A phone that has done nothing yet.
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

    /// Who it is.
    pub const fn profile(&self) -> &Profile {
        &self.profile
    }

    /// Where it is now.
    pub const fn address(&self) -> SocketAddr {
        self.address
    }

    /// Whether it hears anything.
    pub const fn is_alive(&self) -> bool {
        self.alive
    }

    /// Whether it waits for nothing: no request of its own is open, no call is up or coming up.
    pub fn is_idle(&self) -> bool {
        self.calls.is_empty() && self.clients.iter().all(Client::is_over)
    }

    /// How many calls it is in.
    pub fn calls(&self) -> usize {
        self.calls.len()
    }

    /// What it believes about its registration: its contact and the second it ends.
    pub fn registered(&self) -> Option<(String, u64)> {
        self.registration.believed()
    }

    /// Does what the script says.
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

    /// A datagram arrived.
    pub fn receive(&mut self, now: Time, from: SocketAddr, bytes: &[u8], output: &mut PhoneOutput) {
        if !self.alive {
            return;
        }
        let Ok(message) = Message::parse(bytes) else {
            return;
        };
        // Phones write text: what is none they could not repeat octet for octet.
        if message.validate().is_err() || std::str::from_utf8(bytes).is_err() {
            return;
        }
        if message.is_request() {
            self.receive_request(now, from, &message, output);
        } else {
            self.receive_response(now, &message, output);
        }
    }

    /// Time has come to `next_deadline`.
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

    /// When to call `wake` next.
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

/// The earlier of two deadlines, where there are any.
pub(crate) fn earlier(one: Option<Time>, other: Option<Time>) -> Option<Time> {
    one.into_iter().chain(other).min()
}
