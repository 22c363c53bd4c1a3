//! The script of a plan: actions of the phones, and faults.
use crate::dice::Dice;
use crate::network::Weather;
use crate::phone::{Action, CallPlan, Mischief};
use crate::plan::{Plan, usize_of};
use crate::world::Fault;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::rc::Rc;
use std::time::Duration;

/// An address of no machine or phone. Only a misled machine sends there.
fn victim() -> SocketAddr {
    SocketAddr::new(IpAddr::V4(Ipv4Addr::new(198, 51, 100, 7)), 5060)
}

/// The script of a plan, in no particular order.
pub(crate) fn script(dice: &mut Dice, plan: &Plan) -> Vec<(Duration, usize, Action)> {
    let mut script = Vec::new();
    let mut long = dice.fork("long calls");
    for (index, phone) in plan.phones.iter().enumerate() {
        let beginning = dice.span(Duration::ZERO, Duration::from_secs(20));
        script.push((beginning, index, Action::Register));
        for _ in 0..dice.range(2, 14) {
            let at = dice.span(Duration::from_secs(5), plan.duration);
            script.push((at, index, ordinary(dice, &mut long, plan)));
        }
        if !phone.honest {
            for _ in 0..dice.range(5, 40) {
                let at = dice.span(Duration::ZERO, plan.duration);
                script.push((at, index, Action::Mischief(mischief(dice, plan))));
            }
        }
        if dice.chance(200) {
            let at = dice.span(Duration::from_secs(20), plan.duration);
            script.push((at, index, Action::Unregister));
            if dice.chance(500) {
                let again = at + dice.span(Duration::ZERO, Duration::from_secs(60));
                script.push((again, index, Action::Register));
            }
        }
        if dice.chance(150) {
            let at = dice.span(Duration::from_secs(20), plan.duration);
            let back = at + dice.span(Duration::from_millis(10), Duration::from_secs(60));
            script.push((at, index, Action::Vanish));
            let port = u16::try_from(dice.range(6000, 60_000)).unwrap_or(6000);
            script.push((back, index, Action::Return(port)));
            script.push((back + Duration::from_millis(1), index, Action::Register));
        }
    }
    script
}

fn ordinary(dice: &mut Dice, long: &mut Dice, plan: &Plan) -> Action {
    let mut action = match dice.below(20) {
        0 | 1 => Action::Ask("OPTIONS", server_or_user(dice, plan)),
        2 | 3 => Action::Ask("MESSAGE", some_user(dice, plan)),
        4 => Action::HangUp,
        _ => Action::Call(CallPlan {
            to: some_user(dice, plan),
            patience: dice.span(Duration::from_millis(100), Duration::from_secs(60)),
            talk: dice.span(Duration::from_millis(100), Duration::from_secs(90)),
            renegotiates: dice.chance(300),
        }),
    };
    // Sessions expire in calls of several minutes only.
    if let Action::Call(call) = &mut action
        && long.chance(250)
    {
        call.talk = long.span(Duration::from_secs(90), Duration::from_secs(600));
    }
    action
}

/// The URI of a subscriber; sometimes of an unknown one.
fn some_user(dice: &mut Dice, plan: &Plan) -> String {
    if dice.chance(40) {
        return format!("sip:nobody@{}", dice.pick(&plan.hosts).domain);
    }
    dice.pick(&plan.phones).profile.uri()
}

fn server_or_user(dice: &mut Dice, plan: &Plan) -> String {
    if dice.chance(500) {
        format!("sip:{}", dice.pick(&plan.hosts).domain)
    } else {
        some_user(dice, plan)
    }
}

fn mischief(dice: &mut Dice, plan: &Plan) -> Mischief {
    let user = some_user(dice, plan);
    let other = some_user(dice, plan);
    match dice.below(18) {
        0 => Mischief::Noise,
        1 => Mischief::KeepAlive,
        2 => Mischief::Truncated(user),
        3..=6 => Mischief::Mutated(user),
        7 => Mischief::Overgrown(user),
        8 => Mischief::StrayResponse,
        9 => Mischief::Stray(dice.pick::<&str>(&["ACK", "CANCEL", "BYE"]), user),
        10 => Mischief::OpenRelay(victim()),
        11 => Mischief::RelayByRoute(user, victim()),
        12 => Mischief::RelayByDialog(victim()),
        13 => Mischief::ForgedCall(user, other),
        14 => Mischief::ForgedRegistration(other),
        15 => Mischief::NoForwards(user),
        16 => Mischief::Loop(user),
        _ => Mischief::Replay(Rc::from(&[][..])),
    }
}

/// The faults of a plan. A quarter of all plans have none.
pub(crate) fn faults(dice: &mut Dice, plan: &Plan) -> Vec<(Duration, Fault)> {
    let mut faults = Vec::new();
    if dice.chance(250) {
        return faults;
    }
    for _ in 0..dice.range(1, 6) {
        let at = dice.span(Duration::from_secs(5), plan.duration);
        let phone = usize_of(dice.below(plan.phones.len() as u64));
        let host = usize_of(dice.below(plan.hosts.len() as u64));
        let fault = match dice.below(6) {
            0 | 1 => Fault::CutOff(
                phone,
                dice.span(Duration::from_secs(1), Duration::from_secs(90)),
            ),
            2 => Fault::Crash(
                host,
                dice.span(Duration::from_millis(100), Duration::from_secs(20)),
            ),
            3 => Fault::Stall(
                host,
                dice.span(Duration::from_millis(10), Duration::from_secs(4)),
            ),
            4 => Fault::ControlAway(
                host,
                dice.span(Duration::from_secs(1), Duration::from_secs(30)),
            ),
            _ => Fault::Weather(Weather::any(dice)),
        };
        faults.push((at, fault));
    }
    faults
}

#[cfg(test)]
mod tests {
    use super::victim;
    use crate::plan::Plan;

    #[test]
    fn a_seed_decides_its_plan_and_seeds_differ() {
        let describe = |seed| format!("{:?}", Plan::new(seed));
        assert_eq!(describe(3), describe(3));
        assert_ne!(describe(3), describe(4));
    }

    #[test]
    fn the_victims_address_belongs_to_no_phone() {
        for seed in 0..50 {
            let plan = Plan::new(seed);
            assert!(
                plan.phones
                    .iter()
                    .all(|phone| phone.profile.address != victim())
            );
            assert!(
                plan.hosts
                    .iter()
                    .all(|host| !host.listeners.contains(&victim()))
            );
        }
    }
}
