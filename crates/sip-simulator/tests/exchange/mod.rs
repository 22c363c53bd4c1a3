//! A machine that runs [`Exchange`] on its workers, with its own subscriber store, name server and disk.

mod dialogs;

pub use dialogs::DialogStore;
use sip_dialog::{CallEvent, SessionTimerSettings};
use sip_elements::auth::{CredentialCache, Nonces, StoredCredentials};
use sip_elements::location::{Binding, LocationLimits, Locations};
use sip_elements::metrics::WorkerMetrics;
use sip_elements::routing::NextHop;
use sip_elements::{
    ChallengedMethods, ControlMessage, DeadTargets, Description, DialogSettings, Exchange,
    ExchangeOptions, Foreign, MissedDialog, NameServersFailed, NotDescribed, ProxySettings,
    Question, Record, RegistrarSettings, SessionDescriptions, Settings, Shared, StoreFailed,
    TableLimits,
};
use sip_message::digest::{Algorithm, ha1_md5, ha1_sha256};
use sip_message::{KeyHasher, Message, Method};
use sip_routing::Policy;
use sip_routing::limit::{self, Limits};
use sip_simulator::{
    Account, BoundContact, Bounds, Census, Dice, Held, HostFacts, HostPlan, Machine, Places,
    Profile, SavedDialog,
};
use sip_transaction::TimerSettings;
use sip_transport::selection::{Candidate, Destination, Reach, Selection, Server, Step};
use sip_transport::{ConnectionId, Listener, ListenerId, Protocol, Time};
use std::collections::{BTreeMap, VecDeque};
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

/// The address of a server that never responds.
const NOBODY: IpAddr = IpAddr::V4(Ipv4Addr::new(10, 99, 99, 99));

/// The time between two looks at what has to be saved, as in the simulator.
const HOUSEKEEPING: Duration = Duration::from_millis(250);

/// The time between two reloads.
const RELOAD: Duration = Duration::from_secs(17);

/// Most targets of a fork.
const MAX_TARGETS: usize = 8;

/// A binding on disk.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Saved {
    contact: Vec<u8>,
    q: u16,
    expires_at: u32,
    call_id: Vec<u8>,
    cseq: u32,
    path: Vec<u8>,
    instance: Vec<u8>,
    user_agent: Vec<u8>,
    source: SocketAddr,
    listener: ListenerId,
}

impl Saved {
    pub fn new(binding: &Binding<'_>) -> Self {
        Self {
            contact: binding.contact.to_vec(),
            q: binding.q,
            expires_at: binding.expires_at,
            call_id: binding.call_id.to_vec(),
            cseq: binding.cseq,
            path: binding.path.to_vec(),
            instance: binding.instance.to_vec(),
            user_agent: binding.user_agent.to_vec(),
            source: binding.source,
            listener: binding.listener,
        }
    }

    pub fn binding(&self) -> Binding<'_> {
        Binding {
            contact: &self.contact,
            q: self.q,
            expires_at: self.expires_at,
            call_id: &self.call_id,
            cseq: self.cseq,
            path: &self.path,
            instance: &self.instance,
            user_agent: &self.user_agent,
            source: self.source,
            listener: self.listener,
            connection: ConnectionId::NONE,
        }
    }
}

/// All saved bindings, by address of record.
pub type Disk = BTreeMap<Vec<u8>, Vec<Saved>>;

/// A machine that runs the exchange.
pub struct ExchangeMachine {
    plan: HostPlan,
    /// The settings of its workers.
    pub settings: Arc<Settings>,
    /// Survives a crash, like the disk.
    pub hasher: KeyHasher,
    /// The saved bindings, which survive a crash.
    pub disk: Disk,
    /// The saved dialogs, which survive a crash.
    pub dialogs: DialogStore,
    /// Writes that have not reached the disk yet.
    writes: VecDeque<(Time, Vec<u8>, Vec<Saved>)>,
    /// The state that the workers share.
    pub shared: Arc<Shared>,
    /// When the next reload changes the limits.
    reload: Time,
    /// Whether another node of a fleet takes its place when it fails: one that shares the bindings and the store of dialogs.
    pub is_of_fleet: bool,
    /// The dialogs that requests came for and that were not there.
    missed: Vec<MissedDialog>,
}

impl ExchangeMachine {
    pub fn new(plan: &HostPlan) -> Self {
        let mut dice = Dice::new(plan.index as u64, "machine");
        let hasher = KeyHasher::new((dice.bits(), dice.bits()));
        let shared = Arc::new(shared(plan, hasher, &mut dice));
        Self {
            settings: Arc::new(settings(plan)),
            plan: plan.clone(),
            hasher,
            disk: Disk::new(),
            dialogs: DialogStore::default(),
            writes: VecDeque::new(),
            shared,
            reload: Time::default(),
            is_of_fleet: false,
            missed: Vec::new(),
        }
    }

    /// Gives the dialogs that were missed to their workers, from the store.
    fn bring_missed(&mut self, orders: &mut Vec<(usize, ControlMessage)>) {
        for missed in std::mem::take(&mut self.missed) {
            let is_it = |state: &&[u8]| {
                let key = Exchange::key_of_dialog(state, &self.hasher);
                key.is_some_and(|key| missed.keys.contains(&key))
            };
            if let Some(state) = self.dialogs.latest().find(is_it) {
                let home = Exchange::home_of_dialog(state, self.plan.workers);
                let state = state.into();
                orders.push((
                    usize::from(home.unwrap_or(0)),
                    ControlMessage::Adopt { state },
                ));
            }
        }
    }

    /// Reloads the settings from time to time, with other limits: none, of all calls, of networks too.
    fn reload(&mut self, now: Time, orders: &mut Vec<(usize, ControlMessage)>) {
        if now < self.reload {
            return;
        }
        self.reload = now + RELOAD;
        let turn = now.as_micros() / u64::try_from(RELOAD.as_micros()).unwrap_or(1);
        self.settings = Arc::new(Settings {
            policy: policy(turn % 3, Some(&self.settings.policy)),
            ..(*self.settings).clone()
        });
        for worker in 0..usize::from(self.plan.workers) {
            let settings = Arc::clone(&self.settings);
            orders.push((worker, ControlMessage::Settings(settings)));
        }
    }

    fn snapshot(&self, address: &[u8], now: Time) -> Vec<Saved> {
        let mut saved = Vec::new();
        let keep = |binding: &Binding<'_>| saved.push(Saved::new(binding));
        self.shared.locations.visit(address, now, keep);
        saved
    }

    fn write_what_is_due(&mut self, now: Time) {
        while self.writes.front().is_some_and(|(due, ..)| *due <= now) {
            if let Some((_, address, bindings)) = self.writes.pop_front() {
                self.disk.insert(address, bindings);
            }
        }
    }

    fn credentials(&self, username: &[u8], domain: &[u8]) -> Option<StoredCredentials> {
        let known = self
            .plan
            .users
            .iter()
            .find(|user| user.as_bytes() == username)?;
        let password = Profile::right_password(known);
        Some(StoredCredentials {
            ha1_md5: ha1_md5(username, domain, password.as_bytes()),
            ha1_sha256: ha1_sha256(username, domain, password.as_bytes()),
        })
    }
}

/// The control of media: it adds a line to each session description.
impl ExchangeMachine {
    fn describe(&self, message: &[u8], failing: bool) -> Result<Description, NotDescribed> {
        let body = Message::parse(message).expect("a message").body();
        let mark = description_mark(&self.plan);
        if failing {
            return Err(NotDescribed);
        }
        // A request that comes round again has it already.
        if body.windows(mark.len()).any(|part| part == mark.as_bytes()) {
            return Ok(Description::Keep);
        }
        Ok(Description::Replace(
            [body, mark.as_bytes()].concat().into(),
        ))
    }
}

/// The line that a machine adds.
fn description_mark(plan: &HostPlan) -> String {
    format!("a=host{}\r\n", plan.index)
}

/// The name server: every peer has a host name.
impl ExchangeMachine {
    fn locate(
        &self,
        destination: &Destination,
        seed: u64,
        failing: bool,
    ) -> Result<Vec<Candidate>, NameServersFailed> {
        if failing {
            return Err(NameServersFailed);
        }
        let selection = Selection::new(destination, Reach::of(&self.settings.listeners));
        let mut step = selection.begin();
        loop {
            step = match step {
                Step::Naptr(_) => selection.naptr(&[]),
                Step::Srv(services) => {
                    let none: Vec<_> = services.into_iter().map(|it| (it, Vec::new())).collect();
                    selection.srv(&none, seed)
                }
                Step::Addresses(servers) => {
                    let found: Vec<_> = servers
                        .into_iter()
                        .map(|server| self.addresses(server, seed))
                        .collect();
                    return Ok(selection.addresses(&found));
                }
            };
        }
    }

    /// If calls fail over after silence, every peer has a second server that never responds. Half of the calls find it
    /// first.
    fn addresses(&self, server: Server, seed: u64) -> (Server, Vec<IpAddr>) {
        let peers = self.plan.peers.iter();
        let named = peers.filter(|(name, _)| **name == *server.host);
        let mut addresses: Vec<IpAddr> = named.map(|(_, address)| address.ip()).collect();
        if !addresses.is_empty() && self.plan.no_answer.is_some() {
            addresses.insert(usize::from(seed.is_multiple_of(2)), NOBODY);
        }
        (server, addresses)
    }
}

impl Machine for ExchangeMachine {
    type Node = Exchange;

    fn facts(&self) -> HostFacts {
        let plan = &self.plan;
        let size = |count: usize| count as u64;
        let t1 = TimerSettings::default().t1;
        // Serial forking tries one group of targets after the other, and each may time out. Timer C restarts with each
        // provisional response, of which phones send one. Then the branch is cancelled, which may take another 64*T1.
        let groups = u32::try_from(MAX_TARGETS).unwrap_or(1);
        let group = plan.timer_c * 2 + t1 * 128;
        let waiting = plan.question_deadline * 5;
        // Requests inside dialogs may use half as much again.
        let with_reserve = |limit: usize| size(limit + limit / 2);
        HostFacts {
            domain: plan.domain.clone(),
            listeners: plan.listeners.clone(),
            outbound: plan.outbound,
            relays: plan.relays,
            challenged: challenged(&self.settings.challenge),
            description_mark: plan.describes.then(|| description_mark(plan)),
            session_timers: self.settings.session_timers.is_some(),
            bounds: Bounds {
                servers: with_reserve(plan.most_transactions),
                clients: with_reserve(plan.most_transactions),
                contexts: with_reserve(plan.most_contexts),
                dialogs: size(plan.most_dialogs),
                parked: with_reserve(plan.most_parked),
                held_bytes: size(self.settings.limits.held_bytes),
                bindings: size(plan.most_bindings),
                fan_out: MAX_TARGETS * 2 + 4,
                t1,
                invite_answered: group * groups + waiting,
                other_answered: t1 * 64 * (groups + 1) + waiting,
                question_deadline: plan.question_deadline,
                // Phones answer an INVITE with a description once or twice, and repeat the last one.
                response_waits: if plan.describes {
                    plan.question_deadline * 4
                } else {
                    Duration::ZERO
                },
                write_behind: plan.write_behind,
                save_window: plan.save_interval + HOUSEKEEPING,
                dialog_lifetime: self.settings.proxy.dialog_lifetime,
            },
        }
    }

    fn boot(&mut self, now: Time, key: [u8; 32]) -> Vec<Exchange> {
        let mut dice = Dice::from_key(key);
        let mut secrets = if self.is_of_fleet {
            Dice::new(self.plan.index as u64, "secrets of the fleet")
        } else {
            dice.fork("secrets")
        };
        let mut shared = shared(&self.plan, self.hasher, &mut secrets);
        if self.is_of_fleet {
            shared.locations = shared.locations.announcing_all();
        }
        self.shared = Arc::new(shared);
        self.settings = Arc::new(Settings {
            policy: policy(1, None),
            ..(*self.settings).clone()
        });
        self.reload = now + RELOAD;
        for (address, bindings) in &self.disk {
            let live = bindings
                .iter()
                .filter(|saved| u64::from(saved.expires_at) > now.unix_seconds());
            for saved in live {
                self.shared.locations.restore(address, &saved.binding());
            }
        }
        let worker = |worker| {
            Exchange::new(ExchangeOptions {
                worker,
                workers: self.plan.workers,
                shared: Arc::clone(&self.shared),
                settings: Arc::clone(&self.settings),
                metrics: Arc::new(WorkerMetrics::default()),
                seed: dice.key(),
                now,
            })
        };
        let mut workers: Vec<Exchange> = (0..self.plan.workers).map(worker).collect();
        let restored = Some(&mut self.dialogs).filter(|_| !self.is_of_fleet);
        for state in restored.into_iter().flat_map(|dialogs| dialogs.load(now)) {
            for exchange in &mut workers {
                exchange.restore(now, state);
            }
        }
        workers
    }

    fn crash(&mut self, now: Time) {
        if self.is_of_fleet {
            // Each change has reached the others.
            let mut orders = Vec::new();
            self.housekeeping(now, &mut orders);
            self.write_what_is_due(now + self.plan.write_behind);
            return self.missed.clear();
        }
        self.write_what_is_due(now);
        self.writes.clear();
        self.dialogs.crash();
    }

    fn reply(&mut self, now: Time, question: &Question, failing: bool) -> ControlMessage {
        match question {
            Question::Credentials {
                ticket,
                username,
                domain,
            } => {
                if failing {
                    return ControlMessage::Credentials {
                        ticket: *ticket,
                        result: Err(StoreFailed),
                    };
                }
                let known = self.credentials(username, domain);
                self.shared.credentials.insert(username, domain, known, now);
                ControlMessage::Credentials {
                    ticket: *ticket,
                    result: Ok(known),
                }
            }
            Question::Resolve {
                ticket,
                destination,
                seed,
            } => ControlMessage::Resolved {
                ticket: *ticket,
                result: self.locate(destination, *seed, failing),
            },
            Question::Describe {
                ticket, message, ..
            } => ControlMessage::Described {
                ticket: *ticket,
                result: self.describe(message, failing),
            },
        }
    }

    fn housekeeping(&mut self, now: Time, orders: &mut Vec<(usize, ControlMessage)>) {
        self.reload(now, orders);
        self.bring_missed(orders);
        self.write_what_is_due(now);
        self.dialogs.save(now, self.plan.save_interval);
        self.shared.locations.sweep(now);
        let changes = self.shared.locations.take_changes();
        let mut addresses = changes.addresses;
        if changes.everything {
            addresses.extend(
                self.disk
                    .keys()
                    .map(|address| address.clone().into_boxed_slice()),
            );
            self.shared
                .locations
                .for_each(now, |address, _| addresses.push(address.into()));
        }
        for address in addresses {
            let bindings = self.snapshot(&address, now);
            self.writes
                .push_back((now + self.plan.write_behind, address.into_vec(), bindings));
        }
    }

    fn keep(&mut self, _: Time, record: Record) -> Option<CallEvent> {
        match record {
            Record::Call(event) => return Some(event),
            Record::Dialog { id, state, expires } => self.dialogs.change(id, state, expires),
            Record::Missed(missed) => self.missed.push(missed),
            Record::Notice(_) | Record::Dialogs(_) | Record::Traced(_) => {}
        }
        None
    }

    fn saved_dialogs(&self) -> Vec<SavedDialog> {
        self.dialogs.saved()
    }

    fn census(&self, node: &Exchange) -> Census {
        let stats = node.transaction_stats();
        let proxy = node.proxy_stats();
        let dialogs = node.dialog_stats();
        Census {
            servers: Account {
                created: stats.servers_created,
                ended: stats.servers_ended,
                live: stats.servers_live,
            },
            clients: Account {
                created: stats.clients_created,
                ended: stats.clients_ended,
                live: stats.clients_live,
            },
            contexts: Account {
                created: proxy.created,
                ended: proxy.ended,
                live: proxy.live,
            },
            dialogs: Account {
                created: dialogs.created,
                ended: dialogs.ended,
                live: dialogs.early + dialogs.confirmed,
            },
            early_dialogs: dialogs.early,
            parked: node.parked() as u64,
            held: Held {
                believed: node.held_bytes().0 as u64,
                counted: node.held_bytes().1 as u64,
                sources: node.held_sources(),
            },
            places: Places {
                calls: node.count_calls_with_places() as u64,
                taken: u64::from(self.settings.policy.limits.overall().stats().live),
            },
        }
    }

    fn bindings(&self) -> Account {
        let stats = self.shared.locations.stats();
        Account {
            created: stats.created,
            ended: stats.ended,
            live: stats.live,
        }
    }

    fn bound_contacts(&self, now: Time) -> Vec<BoundContact> {
        let mut bound = Vec::new();
        self.shared.locations.for_each(now, |address, binding| {
            bound.push(BoundContact {
                address: String::from_utf8_lossy(address).into_owned(),
                contact: String::from_utf8_lossy(binding.contact).into_owned(),
                expires_at: u64::from(binding.expires_at),
            });
        });
        bound.sort();
        bound
    }
}

fn shared(plan: &HostPlan, hasher: KeyHasher, dice: &mut Dice) -> Shared {
    let mut secret = || (dice.bits(), dice.bits());
    let limits = LocationLimits {
        max_bindings: plan.most_bindings,
        max_pending_changes: 64,
    };
    Shared {
        locations: Locations::with_secret(secret(), limits),
        credentials: CredentialCache::with_secret(secret(), 1000, 120, 20),
        nonces: Nonces::new(secret(), 4096),
        services: sip_elements::services::Services::default(),
        bans: sip_elements::bans::Bans::default(),
        dead_targets: DeadTargets::default(),
        edges: sip_elements::Edges::default(),
        hasher,
    }
}

/// The methods of phones that are challenged.
fn challenged(methods: &ChallengedMethods) -> Vec<String> {
    let all = ["REGISTER", "INVITE", "MESSAGE"].map(str::to_owned);
    let challenged = |method: &String| methods.contains(Method::from_bytes(method.as_bytes()));
    all.into_iter().filter(challenged).collect()
}

/// A policy that counts calls and refuses none. With `kind` 0, it does not count new ones; with 2, it counts them by source and network, too.
fn policy(kind: u64, previous: Option<&Policy>) -> Arc<Policy> {
    let calls = limit::Declared {
        max_calls: (kind > 0).then_some(u32::MAX),
        ..limit::Declared::default()
    };
    let mut description = limit::Description {
        overall: calls,
        ..limit::Description::default()
    };
    if kind == 2 {
        description.each_source = Some(limit::DeclaredEach {
            bounds: calls,
            max_keys: 8,
        });
        description.networks = vec![limit::NetworkLimit {
            name: "phones".into(),
            networks: vec!["10.1.0.0/16".parse().expect("a network")],
            bounds: calls,
        }];
    }
    let previous = previous.map(|policy| &policy.limits);
    Arc::new(Policy {
        limits: Limits::new(&description, previous).expect("limits"),
        ..Policy::default()
    })
}

/// The settings for a plan.
fn settings(plan: &HostPlan) -> Settings {
    let listener = |address: &SocketAddr| Listener {
        protocol: Protocol::Udp,
        address: *address,
        prefix_length: 8,
        advertised: address.to_string(),
        behind_balancer: false,
    };
    let listeners: Vec<_> = plan.listeners.iter().map(listener).collect();
    let (min_expires, max_expires) = plan.expires;
    let seconds = |seconds: u32| Duration::from_secs(u64::from(seconds));
    let defaults = Settings::new(std::slice::from_ref(&plan.domain), listeners);
    Settings {
        challenge: ChallengedMethods::All,
        algorithms: vec![Algorithm::Sha256, Algorithm::Md5],
        nonce_lifetime: plan.nonce_lifetime,
        question_deadline: plan.question_deadline,
        registrar: RegistrarSettings {
            default_expires: seconds(max_expires),
            min_expires: seconds(min_expires),
            max_expires: seconds(max_expires),
            ..defaults.registrar
        },
        proxy: ProxySettings {
            foreign: if plan.relays {
                Foreign::Relay
            } else {
                Foreign::Refuse
            },
            outbound: plan.outbound.map(NextHop::Address),
            session_descriptions: if plan.describes {
                SessionDescriptions::Ask
            } else {
                SessionDescriptions::Pass
            },
            record_route: plan.record_route,
            dialog_lifetime: plan.dialog_lifetime,
            timer_c: plan.timer_c,
            no_answer: plan.no_answer,
            dead_target_lifetime: Duration::from_secs(30),
            max_targets: MAX_TARGETS,
            ..defaults.proxy
        },
        session_timers: plan
            .session_timers
            .map(|(interval, min_interval)| SessionTimerSettings {
                interval: seconds(interval),
                min_interval: seconds(min_interval),
            }),
        dialogs: DialogSettings {
            bye_at_end: true,
            records: true,
            events: std::sync::Arc::new(true.into()),
            persist: true,
            adopts: false,
        },
        limits: TableLimits {
            server_transactions: plan.most_transactions,
            client_transactions: plan.most_transactions,
            response_contexts: plan.most_contexts,
            dialogs: plan.most_dialogs,
            parked_requests: plan.most_parked,
            refreshed_targets: 20,
            // Small tables hold few bytes, so that both bounds are reached.
            held_bytes: (plan.most_transactions * 1500).max(64 << 10),
            // Phones whose methods are not challenged are unproven, and this network loses far more messages than a
            // real one.
            amplification: 1_000,
            retry_after: 2,
        },
        ..defaults
    }
}
