//! All gateways and groups of a configuration.

use super::check::{check_gateway, check_group};
use super::description::{GatewayDescription, GroupDescription};
use super::group::{Group, Member, tiers};
use super::server::Gateway;
use super::{GatewayError, IdentityHeader};
use std::collections::HashMap;
use std::sync::Arc;

/// The maximum number of gateways.
pub const MAX_GATEWAYS: usize = 10_000;

/// The maximum number of groups.
pub const MAX_GROUPS: usize = 10_000;

/// What the configuration declares.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Descriptions {
    /// The gateways.
    pub gateways: Vec<GatewayDescription>,
    /// The groups. Their members are among the gateways.
    pub groups: Vec<GroupDescription>,
}

/// All gateways and groups of a configuration. It never changes, except for the state that it shares with the next one.
#[derive(Debug, Default)]
pub struct Gateways {
    by_name: HashMap<Box<str>, Arc<Gateway>>,
    groups: HashMap<Box<str>, Arc<Group>>,
    /// In the order of the configuration.
    in_order: Box<[Arc<Gateway>]>,
    have_credentials: bool,
    has_trusted: bool,
}

impl Gateways {
    /// Checks the descriptions, and takes over the state of gateways and groups that `previous` has by the same names.
    ///
    /// `previous` does not change and may stay in use, for instance because another part of the new configuration is rejected. The state
    /// of a name that is gone ends with the last configuration and the last call that hold it. If that name returns later, its counts
    /// begin anew.
    ///
    /// # Errors
    ///
    /// The first thing that is wrong. Then nothing is taken over.
    pub fn new(descriptions: Descriptions, previous: Option<&Self>) -> Result<Self, GatewayError> {
        let (count, groups) = (descriptions.gateways.len(), descriptions.groups.len());
        if count > MAX_GATEWAYS {
            return Err(GatewayError::TooManyGateways { count });
        }
        if groups > MAX_GROUPS {
            return Err(GatewayError::TooManyGroups { count: groups });
        }
        let mut all = Self::default();
        let in_order = descriptions.gateways.into_iter().enumerate();
        all.in_order = in_order
            .map(|(index, description)| all.add(description, index, previous))
            .collect::<Result<_, _>>()?;
        all.have_credentials = all.in_order.iter().any(|it| it.credential().is_some());
        all.has_trusted = all.in_order.iter().any(|gateway| gateway.is_trusted());
        for description in descriptions.groups {
            all.add_group(description, previous)?;
        }
        Ok(all)
    }

    /// The gateway with this name.
    pub fn gateway(&self, name: &str) -> Option<&Arc<Gateway>> {
        self.by_name.get(name)
    }

    /// Whether any of them is trusted.
    pub const fn has_trusted(&self) -> bool {
        self.has_trusted
    }

    /// The group with this name.
    pub fn group(&self, name: &str) -> Option<&Arc<Group>> {
        self.groups.get(name)
    }

    /// All gateways in the order of the configuration, which is that of [`Gateway::index`].
    pub fn gateways(&self) -> &[Arc<Gateway>] {
        &self.in_order
    }

    /// Whether any gateway has credentials.
    pub const fn have_credentials(&self) -> bool {
        self.have_credentials
    }

    /// All groups, in no order.
    pub fn groups(&self) -> impl ExactSizeIterator<Item = &Arc<Group>> {
        self.groups.values()
    }

    fn add(
        &mut self,
        description: GatewayDescription,
        index: usize,
        previous: Option<&Self>,
    ) -> Result<Arc<Gateway>, GatewayError> {
        check_gateway(&description)?;
        let name = description.name.clone();
        let before = previous.and_then(|it| it.gateway(&name));
        let gateway = Arc::new(Gateway::new(description, index, before.map(|it| &**it)));
        let replaced = self.by_name.insert(name.clone(), Arc::clone(&gateway));
        if replaced.is_some() {
            return Err(GatewayError::DuplicateGateway { name });
        }
        Ok(gateway)
    }

    fn add_group(
        &mut self,
        description: GroupDescription,
        previous: Option<&Self>,
    ) -> Result<(), GatewayError> {
        check_group(&description)?;
        let name = description.name.clone();
        let before = previous.and_then(|it| it.group(&name));
        let turn = before.map(|it| Arc::clone(&it.turn)).unwrap_or_default();
        let members = self.members(&description)?;
        let group = Group {
            name: description.name,
            algorithm: description.algorithm,
            all_inactive: description.all_inactive,
            tiers: tiers(&members),
            sends_identity: members.iter().any(|it| sends_identity(&it.gateway)),
            members,
            turn,
        };
        if self.groups.insert(name.clone(), Arc::new(group)).is_some() {
            return Err(GatewayError::DuplicateGroup { name });
        }
        Ok(())
    }

    fn members(&self, group: &GroupDescription) -> Result<Box<[Member]>, GatewayError> {
        let members = group.members.iter().map(|member| {
            let Some(gateway) = self.gateway(&member.gateway) else {
                return Err(GatewayError::UnknownMember {
                    group: group.name.clone(),
                    gateway: member.gateway.clone(),
                });
            };
            let gateway = Arc::clone(gateway);
            Ok(Member::new(gateway, member.weight, member.priority))
        });
        let mut members: Box<[Member]> = members.collect::<Result<_, _>>()?;
        members.sort_by_key(|member| member.priority);
        Ok(members)
    }
}

fn sends_identity(gateway: &Gateway) -> bool {
    let header = gateway.rewriting().caller.header;
    !matches!(header, IdentityHeader::Unchanged | IdentityHeader::None)
}
