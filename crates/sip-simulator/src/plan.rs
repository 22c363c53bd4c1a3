//! The decisions of a seed, made before time begins: machines, phones, weather, script and faults.
use crate::dice::Dice;
use crate::host::ControlManners;
use crate::network::Weather;
use crate::phone::{Action, Answering, Profile, SessionHabit};
use crate::traffic;
use crate::world::Fault;
use sip_transport::Time;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::time::Duration;

/// All decisions of a seed.
#[derive(Clone, Debug)]
pub struct Plan {
    /// The seed.
    pub seed: u64,
    /// When the world begins.
    pub start: Time,
    /// How long there is traffic.
    pub duration: Duration,
    /// The initial weather.
    pub weather: Weather,
    /// The machines.
    pub hosts: Vec<HostPlan>,
    /// The phones.
    pub phones: Vec<PhonePlan>,
    /// The actions of the phones, with their time since the start.
    pub script: Vec<(Duration, usize, Action)>,
    /// The faults, with their time since the start.
    pub faults: Vec<(Duration, Fault)>,
}

/// The plan of a machine.
#[derive(Clone, Debug)]
pub struct HostPlan {
    /// Its index in the world.
    pub index: usize,
    /// The domain it is responsible for.
    pub domain: String,
    /// Its listeners.
    pub listeners: Vec<SocketAddr>,
    /// Its workers.
    pub workers: u16,
    /// Its subscribers; their passwords are those of [`Profile::right_password`].
    pub users: Vec<String>,
    /// Server transactions, and client transactions, per worker.
    pub most_transactions: usize,
    /// Response contexts per worker.
    pub most_contexts: usize,
    /// Dialogs per worker.
    pub most_dialogs: usize,
    /// Requests per worker that wait for the control plane.
    pub most_parked: usize,
    /// Bindings of the machine.
    pub most_bindings: usize,
    /// Whether it forwards to other domains for every sender.
    pub relays: bool,
    /// The next hop for its subscribers' requests to other domains.
    pub outbound: Option<SocketAddr>,
    /// The domains and addresses of the other machines, as its name server knows them.
    pub peers: Vec<(String, SocketAddr)>,
    /// Timer C.
    pub timer_c: Duration,
    /// How long a branch may stay silent before the next target is tried.
    pub no_answer: Option<Duration>,
    /// How long a message waits for the control plane.
    pub question_deadline: Duration,
    /// Whether its control plane replaces session descriptions.
    pub describes: bool,
    /// How long a nonce is valid.
    pub nonce_lifetime: Duration,
    /// Whether it adds Record-Route, to stay on the path of dialogs.
    pub record_route: bool,
    /// How long a dialog lives after its last refresh.
    pub dialog_lifetime: Duration,
    /// How often changes of dialogs are written to the disk.
    pub save_interval: Duration,
    /// The longest and the shortest session interval, in seconds (RFC 4028); `None` without session timers.
    pub session_timers: Option<(u32, u32)>,
    /// How long a change of a binding takes to reach the disk.
    pub write_behind: Duration,
    /// Bounds of a binding's lifetime, in seconds.
    pub expires: (u32, u32),
    /// How its control plane behaves.
    pub manners: ControlManners,
}

/// The plan of a phone.
#[derive(Clone, Debug)]
pub struct PhonePlan {
    /// Its identity and behaviour.
    pub profile: Profile,
    /// The machine that it registers with.
    pub home: usize,
    /// Whether it follows the protocol.
    pub honest: bool,
}

impl HostPlan {
    /// A single machine with ample tables, for hand-written worlds.
    pub fn simple(index: usize, workers: u16, users: &[&str]) -> Self {
        Self {
            index,
            domain: domain(index),
            listeners: vec![host_address(index, false)],
            workers,
            users: users.iter().map(|&user| user.to_owned()).collect(),
            most_transactions: 100_000,
            most_contexts: 100_000,
            most_dialogs: 100_000,
            most_parked: 10_000,
            most_bindings: 100_000,
            relays: false,
            outbound: None,
            peers: Vec::new(),
            timer_c: Duration::from_secs(185),
            no_answer: None,
            question_deadline: Duration::from_secs(5),
            describes: false,
            nonce_lifetime: Duration::from_secs(300),
            record_route: true,
            dialog_lifetime: Duration::from_secs(1_200),
            save_interval: Duration::from_secs(1),
            session_timers: Some((1_200, 90)),
            write_behind: Duration::from_secs(1),
            expires: (60, 3600),
            manners: ControlManners::PROMPT,
        }
    }
}

/// The domain of a machine.
pub(crate) fn domain(host: usize) -> String {
    format!("host{host}.test")
}

/// The address of a machine in a plan.
pub fn host_address(host: usize, ipv6: bool) -> SocketAddr {
    let number = u8::try_from(host + 1).unwrap_or(u8::MAX);
    let ip = if ipv6 {
        IpAddr::V6(Ipv6Addr::new(0xfd00, 0, 0, 0, 0, 0, 0, u16::from(number)))
    } else {
        IpAddr::V4(Ipv4Addr::new(10, 0, 0, number))
    };
    SocketAddr::new(ip, 5060)
}

/// The address of a phone in a plan.
pub fn phone_address(phone: usize, ipv6: bool) -> SocketAddr {
    let number = u16::try_from(phone + 1).unwrap_or(u16::MAX);
    let [high, low] = number.to_be_bytes();
    let ip = if ipv6 {
        IpAddr::V6(Ipv6Addr::new(0xfd00, 0, 0, 0, 0, 0, 1, number))
    } else {
        IpAddr::V4(Ipv4Addr::new(10, 1, high, low))
    };
    SocketAddr::new(ip, 5060)
}

impl Plan {
    /// Makes all decisions of the seed.
    pub fn new(seed: u64) -> Self {
        let mut dice = Dice::new(seed, "plan");
        let hosts = if dice.chance(250) { 2 } else { 1 };
        let honest = usize_of(dice.range(3, 20));
        let intruders = if dice.chance(400) {
            usize_of(dice.range(1, 3))
        } else {
            0
        };
        let ipv6 = dice.chance(250);
        let mut plan = Self {
            seed,
            start: start(&mut dice),
            duration: dice.span(Duration::from_secs(120), Duration::from_secs(900)),
            weather: Weather::any(&mut dice),
            hosts: (0..hosts)
                .map(|index| host(&mut dice, index, hosts, ipv6))
                .collect(),
            phones: Vec::new(),
            script: Vec::new(),
            faults: Vec::new(),
        };
        for index in 0..honest + intruders {
            let phone = phone(&mut dice, &plan, index, index < honest, ipv6);
            plan.hosts[phone.home]
                .users
                .push(phone.profile.user.clone());
            plan.phones.push(phone);
        }
        let mut script = dice.fork("script");
        plan.script = traffic::script(&mut script, &plan);
        let mut faults = dice.fork("faults");
        plan.faults = traffic::faults(&mut faults, &plan);
        plan
    }
}

pub(crate) fn usize_of(number: u64) -> usize {
    usize::try_from(number).unwrap_or(usize::MAX)
}

/// Today, the first day of the epoch, the end of signed 32-bit seconds, or the far future.
fn start(dice: &mut Dice) -> Time {
    let seconds = match dice.below(10) {
        0 => 0,
        1 => (1 << 31) - dice.range(0, 600),
        2 => 4_000_000_000,
        _ => 1_700_000_000 + dice.below(100_000_000),
    };
    Time::from_micros(seconds * 1_000_000 + dice.below(1_000_000))
}

fn host(dice: &mut Dice, index: usize, hosts: usize, ipv6: bool) -> HostPlan {
    let tiny = dice.chance(150);
    let table = |dice: &mut Dice, ample| {
        if tiny {
            usize_of(dice.range(3, 30))
        } else {
            ample
        }
    };
    let seconds = |dice: &mut Dice, low, high| Duration::from_secs(dice.range(low, high));
    let mut listeners = vec![host_address(index, false)];
    if ipv6 {
        listeners.push(host_address(index, true));
    }
    let peers = (0..hosts)
        .filter(|peer| *peer != index)
        .map(|peer| (domain(peer), host_address(peer, false)));
    let by_next_hop = dice.chance(600);
    let mut sessions = dice.fork(&format!("sessions of host {index}"));
    let least_expiry = u32::try_from(dice.range(10, 90)).unwrap_or(60);
    HostPlan {
        workers: if dice.chance(400) {
            1
        } else {
            u16::try_from(dice.range(2, 4)).unwrap_or(2)
        },
        listeners,
        most_transactions: table(dice, 100_000),
        most_contexts: table(dice, 100_000),
        most_dialogs: table(&mut dice.fork("dialogs"), 100_000),
        most_parked: table(dice, 10_000),
        most_bindings: table(dice, 100_000),
        relays: hosts > 1 && !by_next_hop,
        outbound: (hosts > 1 && by_next_hop).then(|| host_address((index + 1) % hosts, false)),
        peers: peers.collect(),
        timer_c: seconds(dice, 20, 190),
        no_answer: dice.chance(200).then(|| seconds(dice, 3, 12)),
        question_deadline: seconds(dice, 1, 6),
        describes: dice.fork("descriptions").chance(300),
        nonce_lifetime: seconds(dice, 10, 300),
        record_route: !dice.chance(150),
        save_interval: sessions.span(Duration::from_millis(250), Duration::from_secs(5)),
        session_timers: session_timers(&mut sessions),
        write_behind: dice.span(Duration::from_millis(100), Duration::from_secs(3)),
        expires: (
            least_expiry,
            least_expiry + u32::try_from(dice.range(30, 1000)).unwrap_or(60),
        ),
        manners: ControlManners::any(dice),
        ..HostPlan::simple(index, 1, &[])
    }
}

/// Short intervals, so that sessions expire while there is traffic.
fn session_timers(dice: &mut Dice) -> Option<(u32, u32)> {
    let mut seconds = |low, high| u32::try_from(dice.range(low, high)).unwrap_or(90);
    let longest = seconds(90, 400);
    let shortest = seconds(90, 150).min(longest);
    dice.chance(850).then_some((longest, shortest))
}

/// Half of all phones know session timers.
fn session_habit(dice: &mut Dice) -> Option<SessionHabit> {
    let seconds = |dice: &mut Dice, low, high| u32::try_from(dice.range(low, high)).ok();
    let habit = SessionHabit {
        interval: seconds(dice, 60, 300).filter(|_| dice.chance(700)),
        min_se: seconds(dice, 90, 200).filter(|_| dice.chance(300)),
        leaves_it_to_others: dice.chance(400),
        updates: dice.chance(500),
        neglects: dice.chance(350),
    };
    dice.chance(500).then_some(habit)
}

fn phone(dice: &mut Dice, plan: &Plan, index: usize, honest: bool, ipv6: bool) -> PhonePlan {
    let home = usize_of(dice.below(plan.hosts.len() as u64));
    let ipv6 = ipv6 && dice.chance(400);
    let server = host_address(home, ipv6);
    // Two phones of one subscriber cause a fork.
    let mut siblings = plan
        .phones
        .iter()
        .filter(|phone| phone.honest && phone.home == home);
    let sibling = siblings.next_back().map(|phone| phone.profile.user.clone());
    let user = match sibling.filter(|_| honest && dice.chance(250)) {
        Some(user) => user,
        None if honest => format!("user{index}"),
        None => format!("intruder{index}"),
    };
    let mut profile = Profile::new(
        &user,
        &plan.hosts[home].domain,
        phone_address(index, ipv6),
        server,
    );
    profile.expires = u32::try_from(dice.range(5, 900)).unwrap_or(60);
    profile.prefers_sha256 = dice.chance(600);
    profile.authorizes_unasked = dice.chance(500);
    profile.hides_behind_rport = dice.chance(150);
    profile.forgets_ack = dice.chance(50);
    profile.hangs_up_after = dice
        .chance(300)
        .then(|| dice.span(Duration::from_secs(1), Duration::from_secs(40)));
    profile.answering = answering(dice);
    profile.session = session_habit(&mut dice.fork(&format!("sessions of phone {index}")));
    if !honest && dice.chance(400) {
        "guessed".clone_into(&mut profile.password);
    }
    PhonePlan {
        profile,
        home,
        honest,
    }
}

fn answering(dice: &mut Dice) -> Vec<(u32, Answering)> {
    let after = |dice: &mut Dice| dice.span(Duration::from_millis(200), Duration::from_secs(12));
    let status = *dice.pick(&[480_u16, 486, 500, 503, 600, 603]);
    vec![
        (6, Answering::Accept { after: after(dice) }),
        (
            2,
            Answering::Accept {
                after: Duration::ZERO,
            },
        ),
        (
            2,
            Answering::Refuse {
                after: after(dice),
                status,
            },
        ),
        (1, Answering::RingForEver),
        (u32::from(dice.chance(300)), Answering::Silent),
        (u32::from(dice.chance(300)), Answering::AcceptWhenCancelled),
    ]
}
