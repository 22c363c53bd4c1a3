//! The list of nodes: where it comes from, and how the workers get it.
use crate::config::{Balancer, member_list};
use arc_swap::ArcSwap;
use sip_runtime::Handle;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, SystemTime};
use tandem_balancer::{Control, Health, Member, Members, NodeState, Settings};
use tandem_fleet::members::{MemberSet, MemberState, MemberTransport};
use tracing::{info, warn};

/// How often the file is looked at.
const LOOK: Duration = Duration::from_millis(500);
/// How often the states of the nodes are looked at, for the log.
const WATCH: Duration = Duration::from_millis(200);

/// The nodes in force.
#[derive(Debug)]
pub(super) struct Nodes {
    settings: Arc<Settings>,
    workers: u16,
    members: ArcSwap<Members>,
    /// Changes one after the other.
    changing: Mutex<()>,
}

impl Nodes {
    /// Starts with these nodes.
    ///
    /// # Errors
    /// The nodes contradict each other.
    pub(super) fn new(
        list: Vec<Member>,
        settings: Arc<Settings>,
        workers: u16,
    ) -> anyhow::Result<Self> {
        let members = Members::new(list, &settings, workers, None)?;
        Ok(Self {
            settings,
            workers,
            members: ArcSwap::from_pointee(members),
            changing: Mutex::new(()),
        })
    }

    /// The nodes in force.
    pub(super) fn members(&self) -> Arc<Members> {
        self.members.load_full()
    }

    /// Replaces the nodes, if the list is valid and another one.
    pub(super) fn replace(&self, list: Vec<Member>, handle: &Handle<Control>) {
        let _guard = self.changing.lock().unwrap_or_else(PoisonError::into_inner);
        let current = self.members();
        if current.iter().map(|(member, _)| member).eq(list.iter()) {
            return;
        }
        match Members::new(list, &self.settings, self.workers, Some(&current)) {
            Ok(members) => {
                let members = Arc::new(members);
                self.members.store(Arc::clone(&members));
                let count = members.iter().count();
                match handle.broadcast(&Control::Members(members)) {
                    Ok(()) => info!(nodes = count, "the nodes have changed"),
                    Err(workers) => warn!(?workers, "these workers keep the previous nodes"),
                }
            }
            Err(error) => warn!(%error, "the list of nodes is refused; the previous one stays"),
        }
    }
}

/// The nodes of the configuration or of the file that it names.
pub(super) fn read(balancer: &Balancer) -> anyhow::Result<Vec<Member>> {
    match &balancer.nodes.file {
        Some(file) => read_file(&file.0),
        None => Ok(member_list(balancer)),
    }
}

fn read_file(path: &Path) -> anyhow::Result<Vec<Member>> {
    let text = std::fs::read(path)
        .map_err(|error| anyhow::anyhow!("cannot read {}: {error}", path.display()))?;
    let set =
        MemberSet::parse(&text).map_err(|error| anyhow::anyhow!("{}: {error}", path.display()))?;
    Ok(listed(&set))
}

/// The nodes of a set.
pub(super) fn listed(set: &MemberSet) -> Vec<Member> {
    let member = |member: &tandem_fleet::members::Member| Member {
        identity: member.instance.clone(),
        number: member.id(),
        address: member.address,
        has_tcp: member.transports.contains(&MemberTransport::Tcp),
        is_draining: member.state == MemberState::Draining,
    };
    set.nodes().iter().map(member).collect()
}

/// Reads the file again whenever it changes.
pub(super) async fn follow_file(path: PathBuf, nodes: Arc<Nodes>, handle: Handle<Control>) {
    let changed = |path: &Path| -> Option<SystemTime> { path.metadata().ok()?.modified().ok() };
    let mut seen = changed(&path);
    loop {
        tokio::time::sleep(LOOK).await;
        let now = changed(&path);
        if now == seen {
            continue;
        }
        seen = now;
        match read_file(&path) {
            Ok(list) => nodes.replace(list, &handle),
            Err(error) => warn!(%error, "the list of nodes is refused; the previous one stays"),
        }
    }
}

/// Logs each change of a node's state.
pub(super) async fn log_states(nodes: Arc<Nodes>) {
    let mut known: Vec<(String, NodeState)> = Vec::new();
    loop {
        let members = nodes.members();
        let state =
            |(member, health): (&Member, &Health)| (member.identity.clone(), health.state());
        let states: Vec<(String, NodeState)> = members.iter().map(state).collect();
        for (node, state) in &states {
            let before = known.iter().find(|(name, _)| name == node);
            let before = before.map_or(NodeState::Unknown, |(_, state)| *state);
            match (before, state) {
                (before, state) if before == *state => {}
                (_, NodeState::Dead) => warn!(
                    node,
                    "the node does not answer; its calls go to other nodes"
                ),
                (_, NodeState::Unavailable) => info!(node, "the node takes no new calls"),
                (_, NodeState::Alive | NodeState::Unknown) => info!(node, "the node answers"),
            }
        }
        known = states;
        tokio::time::sleep(WATCH).await;
    }
}
