//! `EndpointSlices` (`discovery.k8s.io/v1`): what the controller reads of them, and the nodes that they describe.

use super::admin;
use crate::members::{Member, MemberState, MemberTransport};
use serde::Deserialize;
use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};

/// The answer to a list request.
#[derive(Debug, Deserialize)]
pub(super) struct SliceList {
    pub(super) metadata: ListMeta,
    #[serde(default)]
    pub(super) items: Vec<EndpointSlice>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct ListMeta {
    pub(super) resource_version: String,
}

/// A line of a watch. `object` depends on the type.
#[derive(Debug, Deserialize)]
pub(super) struct WatchEvent {
    #[serde(rename = "type")]
    pub(super) kind: String,
    pub(super) object: serde_json::Value,
}

/// A part of the endpoints of a Service.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct EndpointSlice {
    pub(super) metadata: ObjectMeta,
    #[serde(default)]
    endpoints: Option<Vec<Endpoint>>,
    #[serde(default)]
    ports: Option<Vec<Port>>,
}

#[derive(Clone, Debug, Deserialize)]
pub(super) struct ObjectMeta {
    pub(super) name: String,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Endpoint {
    #[serde(default)]
    addresses: Vec<String>,
    #[serde(default)]
    conditions: Conditions,
    #[serde(default)]
    target_ref: Option<TargetRef>,
}

#[derive(Clone, Copy, Debug, Default, Deserialize)]
#[serde(default)]
struct Conditions {
    ready: Option<bool>,
    terminating: Option<bool>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
struct TargetRef {
    name: String,
    uid: String,
}

#[derive(Clone, Debug, Deserialize)]
struct Port {
    #[serde(default)]
    name: Option<String>,
    #[serde(default, rename = "port")]
    number: Option<u16>,
    #[serde(default)]
    protocol: Option<String>,
}

impl Conditions {
    /// A node takes new calls while it is ready and stays. One that is only serving finishes what it has; one that is not ready yet has
    /// nothing that leads to it. By the API, `ready` is true if it is unknown.
    fn state(self) -> MemberState {
        if self.ready.unwrap_or(true) && !self.terminating.unwrap_or(false) {
            MemberState::Active
        } else {
            MemberState::Draining
        }
    }
}

/// How to read the slices.
#[derive(Clone, Debug)]
pub(super) struct Reading<'r> {
    pub(super) port_name: &'r str,
    pub(super) admin_port: Option<u16>,
}

impl Reading<'_> {
    /// The nodes that these slices describe. A pod that several slices describe (while it moves from one to another, or with both families
    /// of addresses) is one node: active if one of them says so, and with its IPv4 address.
    pub(super) fn members<'s>(
        &self,
        slices: impl Iterator<Item = &'s EndpointSlice>,
    ) -> Vec<Member> {
        let mut members: BTreeMap<String, Member> = BTreeMap::new();
        for slice in slices {
            let Some((port, transports)) = self.port(slice) else {
                continue;
            };
            for endpoint in slice.endpoints.iter().flatten() {
                let Some(member) = self.member(endpoint, port, &transports) else {
                    continue;
                };
                let prefers = |present: &Member| {
                    let rank =
                        |it: &Member| (it.state != MemberState::Active, it.address.is_ipv6());
                    rank(&member) < rank(present)
                };
                if members.get(&member.instance).is_none_or(prefers) {
                    members.insert(member.instance.clone(), member);
                }
            }
        }
        members.into_values().collect()
    }

    /// The port of this name, and the transports of all ports with its number.
    fn port(&self, slice: &EndpointSlice) -> Option<(u16, Vec<MemberTransport>)> {
        let ports = || slice.ports.iter().flatten();
        let named =
            ports().find(|port| port.name.as_deref().unwrap_or_default() == self.port_name)?;
        let number = named.number?;
        let protocols = ports().filter(|port| port.number == Some(number));
        let mut transports: Vec<MemberTransport> = protocols
            .filter_map(|port| match port.protocol.as_deref().unwrap_or("TCP") {
                "UDP" => Some(MemberTransport::Udp),
                "TCP" => Some(MemberTransport::Tcp),
                _ => None,
            })
            .collect();
        transports.sort_by_key(|transport| *transport == MemberTransport::Tcp);
        transports.dedup();
        Some((number, transports))
    }

    fn member(
        &self,
        endpoint: &Endpoint,
        port: u16,
        transports: &[MemberTransport],
    ) -> Option<Member> {
        // By the API, all addresses of an endpoint are interchangeable, and names have a type of slice of their own.
        let ip: IpAddr = endpoint.addresses.first()?.parse().ok()?;
        let address = SocketAddr::new(ip, port);
        let named = |text: &str| {
            if text.is_empty() {
                address.to_string()
            } else {
                text.to_owned()
            }
        };
        let target = endpoint.target_ref.clone().unwrap_or_default();
        Some(Member {
            state: endpoint.conditions.state(),
            transports: transports.to_vec(),
            admin: admin(ip, self.admin_port),
            ..Member::new(named(&target.uid), named(&target.name), address)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn slice(endpoints: &serde_json::Value) -> EndpointSlice {
        let slice = json!({
            "metadata": { "name": "s" },
            "endpoints": endpoints,
            "ports": [
                { "name": "admin", "port": 8060, "protocol": "TCP" },
                { "name": "sip", "port": 5060, "protocol": "UDP" },
                { "name": "sip-tcp", "port": 5060, "protocol": "TCP" },
            ],
        });
        serde_json::from_value(slice).expect("a slice")
    }

    fn endpoint(uid: &str, address: &str, conditions: &serde_json::Value) -> serde_json::Value {
        json!({
            "addresses": [address], "conditions": conditions,
            "targetRef": { "kind": "Pod", "name": format!("pod-{uid}"), "uid": uid },
        })
    }

    fn members(slices: &[EndpointSlice]) -> Vec<Member> {
        let reading = Reading {
            port_name: "sip",
            admin_port: Some(8060),
        };
        reading.members(slices.iter())
    }

    #[test]
    fn conditions_say_whether_a_pod_takes_new_calls() {
        for (conditions, state) in [
            (
                json!({ "ready": true, "serving": true, "terminating": false }),
                MemberState::Active,
            ),
            (json!({}), MemberState::Active),
            (json!({ "ready": null }), MemberState::Active),
            (
                json!({ "ready": false, "serving": true, "terminating": true }),
                MemberState::Draining,
            ),
            (
                json!({ "ready": false, "serving": false, "terminating": true }),
                MemberState::Draining,
            ),
            (
                json!({ "ready": false, "serving": false }),
                MemberState::Draining,
            ),
            // With publishNotReadyAddresses, all endpoints are ready.
            (
                json!({ "ready": true, "terminating": true }),
                MemberState::Draining,
            ),
        ] {
            let found = members(&[slice(&json!([endpoint("u", "10.244.1.5", &conditions)]))]);
            assert_eq!(found[0].state, state, "{conditions}");
        }
    }

    #[test]
    fn a_node_is_keyed_by_the_uid_of_its_pod() {
        let ready = json!({ "ready": true });
        let found = members(&[slice(&json!([endpoint("u-1", "10.244.1.5", &ready)]))]);
        let mut expected = Member::new("u-1", "pod-u-1", ([10, 244, 1, 5], 5060).into());
        expected.admin = Some(([10, 244, 1, 5], 8060).into());
        assert_eq!(found, [expected]);
        let nameless = json!([{ "addresses": ["10.244.1.6"] }]);
        assert_eq!(members(&[slice(&nameless)])[0].instance, "10.244.1.6:5060");
    }

    #[test]
    fn a_pod_in_several_slices_is_one_node() {
        let (ready, ending) = (json!({ "ready": true }), json!({ "ready": false }));
        let slices = [
            slice(&json!([
                endpoint("u", "fd00::5", &ready),
                endpoint("v", "10.244.1.6", &ending)
            ])),
            slice(&json!([
                endpoint("u", "10.244.1.5", &ready),
                endpoint("v", "10.244.1.6", &ready)
            ])),
        ];
        for slices in [slices.clone(), [slices[1].clone(), slices[0].clone()]] {
            let found = members(&slices);
            let words: Vec<String> = found
                .iter()
                .map(|it| format!("{} {}", it.address, it.state.word()))
                .collect();
            assert_eq!(words, ["10.244.1.5:5060 active", "10.244.1.6:5060 active"]);
        }
    }

    #[test]
    fn slices_without_nodes_or_without_the_port_are_empty() {
        assert!(members(&[slice(&json!(null))]).is_empty());
        assert!(members(&[slice(&json!([{ "addresses": ["sip.example.org"] }, {}]))]).is_empty());
        let reading = Reading {
            port_name: "other",
            admin_port: None,
        };
        let one = slice(&json!([{ "addresses": ["10.244.1.5"] }]));
        assert!(reading.members([one].iter()).is_empty());
    }
}
