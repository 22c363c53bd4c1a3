//! The registered clients of the fleet: the bindings of all nodes, merged by address of record, one page at a time.

use crate::members::Member;
use crate::nodes::{NodeAccess, Unanswered, call};
use serde::Deserialize;
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;

/// A page of `location.list`.
#[derive(Debug, Deserialize)]
struct Page {
    addresses: Vec<Address>,
    next: Option<String>,
}

#[derive(Debug, Deserialize)]
struct Address {
    address: String,
    bindings: Vec<Map<String, Value>>,
}

/// The next `limit` addresses of record after `after`, and the nodes that did not answer.
pub(crate) async fn list(
    access: &NodeAccess,
    nodes: &[Member],
    limit: usize,
    after: &str,
) -> (Value, Vec<Unanswered>) {
    let params = json!({ "limit": limit, "after": after });
    let asked = access.ask(nodes, |client| {
        let params = params.clone();
        async move {
            let page = call(client, "location.list", params).await?;
            serde_json::from_value::<Page>(page).map_err(|error| format!("location.list: {error}"))
        }
    });
    let asked = asked.await;
    let pages = asked
        .answers
        .into_iter()
        .map(|(node, page)| (node.name, page));
    (merge(pages.collect(), limit), asked.unanswered)
}

/// Every node returns its first addresses in order, so the first ones of all of them are complete.
fn merge(pages: Vec<(String, Page)>, limit: usize) -> Value {
    let mut more = pages.iter().any(|(_, page)| page.next.is_some());
    let mut merged: BTreeMap<String, Vec<Map<String, Value>>> = BTreeMap::new();
    for (node, page) in pages {
        for Address { address, bindings } in page.addresses {
            let known = merged.entry(address).or_default();
            for binding in bindings {
                add(known, &node, binding);
            }
        }
    }
    more |= merged.len() > limit;
    let page: Vec<(String, Vec<Map<String, Value>>)> = merged.into_iter().take(limit).collect();
    let next = page
        .last()
        .filter(|_| more)
        .map(|(address, _)| address.clone());
    let addresses: Vec<Value> = page
        .into_iter()
        .map(|(address, bindings)| json!({ "address": address, "bindings": bindings }))
        .collect();
    json!({ "addresses": addresses, "next": next })
}

/// Adds a binding of a node. If another node has the same one, the later registration counts, and both nodes are named.
fn add(known: &mut Vec<Map<String, Value>>, node: &str, mut binding: Map<String, Value>) {
    let key = |it: &Map<String, Value>| (it.get("contact").cloned(), it.get("call_id").cloned());
    let age = |it: &Map<String, Value>| {
        let number = |name: &str| it.get(name).and_then(Value::as_u64).unwrap_or_default();
        (number("cseq"), number("expires_in"))
    };
    let Some(present) = known
        .iter_mut()
        .find(|present| key(present) == key(&binding))
    else {
        binding.insert("nodes".to_owned(), json!([node]));
        known.push(binding);
        return;
    };
    let mut nodes = present.remove("nodes").unwrap_or_default();
    if let Some(nodes) = nodes.as_array_mut() {
        nodes.push(node.into());
    }
    if age(&binding) > age(present) {
        *present = binding;
    }
    present.insert("nodes".to_owned(), nodes);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn page(addresses: &[(&str, u64)], next: Option<&str>) -> Page {
        let addresses: Vec<Value> = addresses
            .iter()
            .map(|(address, cseq)| json!({ "address": address, "bindings": [{ "contact": "sip:c", "call_id": "x", "cseq": cseq }] }))
            .collect();
        serde_json::from_value(json!({ "addresses": addresses, "next": next })).expect("a page")
    }

    #[test]
    fn a_page_holds_the_first_addresses_of_all_nodes() {
        let pages = vec![
            ("a".to_owned(), page(&[("u1@x", 1), ("u3@x", 1)], None)),
            ("b".to_owned(), page(&[("u2@x", 1), ("u4@x", 1)], None)),
        ];
        let merged = merge(pages, 2);
        let names: Vec<&str> = merged["addresses"]
            .as_array()
            .expect("a list")
            .iter()
            .filter_map(|it| it["address"].as_str())
            .collect();
        assert_eq!(names, ["u1@x", "u2@x"]);
        assert_eq!(merged["next"], "u2@x");
        let last = merge(vec![("b".to_owned(), page(&[("u4@x", 1)], None))], 2);
        assert_eq!(last["next"], Value::Null);
    }

    #[test]
    fn the_same_binding_at_two_nodes_is_shown_once_with_its_latest_state() {
        let pages = vec![
            ("a".to_owned(), page(&[("u1@x", 7)], None)),
            ("b".to_owned(), page(&[("u1@x", 8)], None)),
        ];
        let merged = merge(pages, 10);
        let bindings = &merged["addresses"][0]["bindings"];
        assert_eq!(
            bindings,
            &json!([{ "contact": "sip:c", "call_id": "x", "cseq": 8, "nodes": ["a", "b"] }])
        );
    }
}
