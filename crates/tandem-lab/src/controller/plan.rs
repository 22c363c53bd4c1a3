//! Divides the phones of a scenario among agents, and assigns its calls.

use super::protocol::WIDEST;
use clap::ValueEnum;
use rustc_hash::FxHashMap;
use serde::Serialize;
use std::collections::BTreeSet;
use std::time::Duration;

/// Phones per pod: the last two digits of a number identify the phone, the digits before them the pod.
pub(super) const POD: u32 = 100;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Call {
    /// Since the start.
    pub(super) at: Duration,
    pub(super) caller: u32,
    pub(super) callee: u32,
}

/// A call and the agent that makes it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Planned {
    pub(super) call: Call,
    /// Index of its agent in [`Plan::agents`].
    pub(super) agent: usize,
}

/// How phones are divided among agents.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Division {
    /// Equal shares, in the order of the numbers.
    Ranges,
    /// Whole pods of 100: an even pod (phones 4600 to 4699) calls the odd pod after it, and no agent plays both.
    Pods,
}

/// An agent that can play phones.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Candidate {
    pub(super) name: String,
    pub(super) most_phones: u32,
}

/// A scenario divided among agents.
#[derive(Clone, Debug)]
pub(super) struct Plan {
    /// By due time.
    pub(super) calls: Vec<Planned>,
    /// Agents and their phones, ascending.
    pub(super) agents: Vec<(String, Vec<u32>)>,
}

impl Plan {
    /// Divides a scenario among agents. The calls are sorted by time, the agents by name.
    ///
    /// # Errors
    /// The agents have no room for all phones, or the calls do not follow the pods. The message says what to do.
    pub(super) fn new(
        calls: &[Call],
        agents: &[Candidate],
        division: Division,
    ) -> Result<Self, String> {
        if agents.is_empty() {
            return Err("no agent is connected: start `tandem lab agent`".into());
        }
        let phones: BTreeSet<u32> = calls
            .iter()
            .flat_map(|call| [call.caller, call.callee])
            .collect();
        let mut agents = match division {
            Division::Ranges => ranges(&phones, agents)?,
            Division::Pods => pods(&phones, agents)?,
        };
        agents.retain(|(_, phones)| !phones.is_empty());
        for (name, phones) in &agents {
            let (first, last) = (phones.first().unwrap_or(&0), phones.last().unwrap_or(&0));
            if last - first >= WIDEST {
                return Err(format!(
                    "agent {name} would play phones {first} to {last}, but their numbers may be at most {WIDEST} apart: use closer numbers, or start more agents"
                ));
            }
        }
        let numbered = agents.iter().enumerate();
        let agent_of: FxHashMap<u32, usize> = numbered
            .flat_map(|(place, (_, phones))| phones.iter().map(move |phone| (*phone, place)))
            .collect();
        let calls = calls.iter().map(|call| Planned {
            call: *call,
            agent: agent_of[&call.caller],
        });
        Ok(Self {
            calls: calls.collect(),
            agents,
        })
    }

    /// Number of phones.
    pub(super) fn phones(&self) -> usize {
        self.agents.iter().map(|(_, phones)| phones.len()).sum()
    }

    /// From the first call to the last.
    pub(super) fn duration(&self) -> Duration {
        self.calls
            .last()
            .map_or(Duration::ZERO, |last| last.call.at)
    }
}

/// Divides phones in order, equally except where agents lack room.
fn ranges(phones: &BTreeSet<u32>, agents: &[Candidate]) -> Result<Vec<(String, Vec<u32>)>, String> {
    let room: u64 = agents
        .iter()
        .map(|agent| u64::from(agent.most_phones))
        .sum();
    if room < phones.len() as u64 {
        return Err(format!(
            "the scenario has {} phones, but the connected agents have room for {room}: start more agents, or increase their --phones",
            phones.len()
        ));
    }
    // Agents with the least room are filled first, so that the others can share the rest.
    let mut by_room: Vec<usize> = (0..agents.len()).collect();
    by_room.sort_by_key(|place| agents[*place].most_phones);
    let mut shares = vec![0; agents.len()];
    let mut left = phones.len();
    for (decided, place) in by_room.into_iter().enumerate() {
        let fair = left.div_ceil(agents.len() - decided);
        shares[place] = fair.min(agents[place].most_phones as usize);
        left -= shares[place];
    }
    let mut phones = phones.iter().copied();
    let divided = agents.iter().zip(shares).map(|(agent, share)| {
        let phones = phones.by_ref().take(share).collect();
        (agent.name.clone(), phones)
    });
    Ok(divided.collect())
}

/// Divides whole pods: even ones go to the first, third, fifth, … agent, odd ones to the others.
fn pods(phones: &BTreeSet<u32>, agents: &[Candidate]) -> Result<Vec<(String, Vec<u32>)>, String> {
    if agents.len() < 2 {
        return Err("pods need two agents, because no agent plays both a calling and a called pod: start another agent".into());
    }
    let mut divided: Vec<(String, Vec<u32>)> = agents
        .iter()
        .map(|agent| (agent.name.clone(), Vec::new()))
        .collect();
    for parity in [0, 1] {
        let pods: BTreeSet<u32> = phones
            .iter()
            .map(|phone| phone / POD)
            .filter(|pod| pod % 2 == parity)
            .collect();
        let of_parity: Vec<usize> = (parity as usize..agents.len()).step_by(2).collect();
        let each = pods.len().div_ceil(of_parity.len()).max(1);
        for (turn, pod) in pods.into_iter().enumerate() {
            let of_pod = phones.range(pod * POD..=pod * POD + (POD - 1));
            divided[of_parity[turn / each]].1.extend(of_pod);
        }
    }
    for (agent, (name, phones)) in agents.iter().zip(&divided) {
        if phones.len() > agent.most_phones as usize {
            return Err(format!(
                "agent {name} would play {} phones but has room for {}: start more agents, or increase their --phones",
                phones.len(),
                agent.most_phones
            ));
        }
    }
    Ok(divided)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn calls(pairs: &[(u32, u32)]) -> Vec<Call> {
        let call = |(second, (caller, callee)): (u64, &(u32, u32))| Call {
            at: Duration::from_secs(second),
            caller: *caller,
            callee: *callee,
        };
        (0..).zip(pairs).map(call).collect()
    }

    fn agents(rooms: &[u32]) -> Vec<Candidate> {
        let agent = |(number, room): (usize, &u32)| Candidate {
            name: format!("agent-{number}"),
            most_phones: *room,
        };
        rooms.iter().enumerate().map(agent).collect()
    }

    fn divide(
        pairs: &[(u32, u32)],
        rooms: &[u32],
        division: Division,
    ) -> Result<Vec<Vec<u32>>, String> {
        let plan = Plan::new(&calls(pairs), &agents(rooms), division)?;
        Ok(plan.agents.into_iter().map(|(_, phones)| phones).collect())
    }

    #[test]
    fn each_agent_plays_as_many_phones_as_the_others() {
        let pairs = [(1, 2), (3, 4), (5, 6)];
        let divided = divide(&pairs, &[10, 10], Division::Ranges).unwrap();
        assert_eq!(divided, [vec![1, 2, 3], vec![4, 5, 6]]);
        let divided = divide(&pairs, &[10, 2, 10], Division::Ranges).unwrap();
        assert_eq!(divided.iter().map(Vec::len).sum::<usize>(), 6);
        let divided = divide(&pairs, &[1, 10], Division::Ranges).unwrap();
        assert_eq!(divided, [vec![1], vec![2, 3, 4, 5, 6]]);
    }

    #[test]
    fn every_call_goes_to_the_agent_of_its_caller() {
        let plan = Plan::new(
            &calls(&[(1, 9), (9, 1), (1, 9)]),
            &agents(&[5, 5]),
            Division::Ranges,
        )
        .unwrap();
        let agents: Vec<usize> = plan.calls.iter().map(|planned| planned.agent).collect();
        assert_eq!(agents, [0, 1, 0]);
        assert_eq!(plan.duration(), Duration::from_secs(2));
    }

    #[test]
    fn too_little_room_is_an_error_with_numbers() {
        let problem = divide(&[(1, 2), (3, 4)], &[1, 2], Division::Ranges).unwrap_err();
        assert!(
            problem.contains("has 4 phones") && problem.contains("room for 3"),
            "{problem}"
        );
        assert!(
            divide(&[(1, 2)], &[], Division::Ranges)
                .unwrap_err()
                .contains("tandem lab agent")
        );
        let problem = divide(&[(1, 2_000_000)], &[9], Division::Ranges).unwrap_err();
        assert!(problem.contains("1 to 2000000"), "{problem}");
    }

    #[test]
    fn even_pods_call_odd_ones_and_no_agent_plays_both() {
        let pairs = [(4600, 4700), (7000, 7105), (0, 199)];
        let divided = divide(&pairs, &[10, 10], Division::Pods).unwrap();
        assert_eq!(divided, [vec![0, 4600, 7000], vec![199, 4700, 7105]]);
        let divided = divide(&pairs, &[10, 10, 10, 10], Division::Pods).unwrap();
        assert_eq!(
            divided,
            [vec![0, 4600], vec![199, 4700], vec![7000], vec![7105]]
        );
    }
}
