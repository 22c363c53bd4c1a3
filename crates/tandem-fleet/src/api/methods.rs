//! The methods, in both syntaxes: REST by path, JSON-RPC by name.

use crate::controller::{Fleet, count};
use crate::histograms::Histograms;
use crate::members::Member;
use crate::membership::Refusal;
use crate::nodes::{Unanswered, metrics};
use crate::registrations;
use crate::users::TestUsers;
use serde_json::{Value, json};
use std::pin::Pin;
use std::sync::Arc;
use tandem_http::rpc::{Arguments, Failure, Param, Params, code, nearest};

/// Registrations of a page, unless the caller says otherwise.
const PAGE: u64 = 100;
/// Most test users of one call.
const MOST_USERS: u64 = 100_000;

type Outcome<'f> = Pin<Box<dyn Future<Output = Result<Value, Failure>> + Send + 'f>>;

/// A method.
pub(super) struct Method {
    /// Name in the form `noun.verb`.
    pub(super) name: &'static str,
    /// Verbs and paths of the same method in REST.
    pub(super) paths: &'static [(&'static str, &'static str)],
    /// One-sentence description.
    pub(super) summary: &'static str,
    /// Parameters in order.
    pub(super) params: Params,
    run: for<'f> fn(&'f Arc<Fleet>, Arguments) -> Outcome<'f>,
}

/// All methods.
pub(super) const METHODS: &[Method] = &[
    Method {
        name: "histograms.get",
        paths: &[("GET", "/v1/histograms")],
        summary: "Returns the histograms of all nodes, summed by name and labels.",
        params: &[("name", Param::Text, false)],
        run: |fleet, arguments| Box::pin(histograms(fleet, arguments)),
    },
    Method {
        name: "members.get",
        paths: &[("GET", "/v1/members")],
        summary: "Returns the member set that edges have.",
        params: &[],
        run: |fleet, _| Box::pin(async { members(fleet) }),
    },
    Method {
        name: "nodes.drain",
        paths: &[("POST", "/v1/nodes/{instance}/drain")],
        summary: "Gives a node no new calls; its calls go on. The last active node needs `force`.",
        params: &[
            ("instance", Param::Text, true),
            ("force", Param::Truth, false),
        ],
        run: |fleet, arguments| Box::pin(drain(fleet, arguments)),
    },
    Method {
        name: "nodes.enable",
        paths: &[
            ("POST", "/v1/nodes"),
            ("POST", "/v1/nodes/{instance}/enable"),
        ],
        summary: "Adds a node, if the API is the source of members, or lets a known one take new calls again. `force` replaces a record.",
        params: &[
            ("instance", Param::Text, true),
            ("name", Param::Text, false),
            ("address", Param::Text, false),
            ("state", Param::Text, false),
            ("transports", Param::Texts, false),
            ("admin", Param::Text, false),
            ("force", Param::Truth, false),
        ],
        run: |fleet, arguments| Box::pin(enable(fleet, arguments)),
    },
    Method {
        name: "nodes.list",
        paths: &[("GET", "/v1/nodes")],
        summary: "Lists all nodes with state and orders, also those that edges do not see.",
        params: &[],
        run: |fleet, _| {
            Box::pin(async {
                Ok(
                    json!({ "source": fleet.source, "problem": fleet.source_problem(), "nodes": fleet.views() }),
                )
            })
        },
    },
    Method {
        name: "nodes.remove",
        paths: &[("DELETE", "/v1/nodes/{instance}")],
        summary: "Takes a node out of the set at once. The last active node needs `force`; the last node stays.",
        params: &[
            ("instance", Param::Text, true),
            ("force", Param::Truth, false),
        ],
        run: |fleet, arguments| Box::pin(remove(fleet, arguments)),
    },
    Method {
        name: "registrations.list",
        paths: &[("GET", "/v1/registrations")],
        summary: "Lists addresses of record with their bindings at all nodes, ordered by name, one page at a time.",
        params: &[
            ("limit", Param::Number(1, 1_000), false),
            ("after", Param::Text, false),
        ],
        run: |fleet, arguments| Box::pin(list_registrations(fleet, arguments)),
    },
    Method {
        name: "rpc.methods",
        paths: &[("GET", "/v1/methods")],
        summary: "Lists all methods.",
        params: &[],
        run: |_, _| Box::pin(async { Ok(catalogue()) }),
    },
    Method {
        name: "users.add",
        paths: &[("POST", "/v1/users")],
        summary: "Fills the database with numbered test users: `{}` or `{:04}` in `user` and `password` is the number.",
        params: &[
            ("domain", Param::Text, true),
            ("count", Param::Number(1, MOST_USERS), true),
            ("user", Param::Text, false),
            ("password", Param::Text, false),
            ("first", Param::Number(0, 1_000_000_000), false),
            ("replace", Param::Truth, false),
        ],
        run: |fleet, arguments| Box::pin(add_users(fleet, arguments)),
    },
];

/// Calls a method by its name.
pub(super) async fn call(fleet: &Arc<Fleet>, name: &str, params: Value) -> Result<Value, Failure> {
    let Some(method) = METHODS.iter().find(|method| method.name == name) else {
        let near = nearest(name, METHODS.iter().map(|method| method.name));
        let hint = near.map_or_else(
            || "rpc.methods lists all methods".to_owned(),
            |near| format!("did you mean {near}?"),
        );
        return Err(Failure::new(
            code::METHOD_NOT_FOUND,
            format!("unknown method {name}: {hint}"),
        ));
    };
    let arguments = Arguments::check(method.name, method.params, params)?;
    (method.run)(fleet, arguments).await
}

fn catalogue() -> Value {
    let describe = |method: &Method| {
        let params = method.params.iter().map(|(name, param, required)| json!({ "name": name, "must_be": param.phrase(), "required": required }));
        let paths = method
            .paths
            .iter()
            .map(|(verb, path)| format!("{verb} {path}"));
        json!({
            "name": method.name, "summary": method.summary,
            "paths": paths.collect::<Vec<_>>(), "params": params.collect::<Vec<_>>(),
        })
    };
    METHODS.iter().map(describe).collect()
}

impl From<Refusal> for Failure {
    fn from(refusal: Refusal) -> Self {
        let code = match refusal {
            Refusal::Unknown(_) | Refusal::NotListed { .. } => code::NOT_FOUND,
            Refusal::Invalid(_) => code::INVALID_PARAMS,
            Refusal::Taken(_) | Refusal::LastActive(_) | Refusal::LastNode(_) => code::REFUSED,
        };
        Self::new(code, refusal.to_string())
    }
}

fn members(fleet: &Fleet) -> Result<Value, Failure> {
    let published = fleet.set().ok_or_else(no_members)?;
    serde_json::to_value(&*published.set).map_err(Failure::internal)
}

fn no_members() -> Failure {
    Failure::new(
        code::UNAVAILABLE,
        "no node is known yet: GET /v1/nodes says what the source of members answers",
    )
}

async fn enable(fleet: &Fleet, arguments: Arguments) -> Result<Value, Failure> {
    let force = arguments.truth("force").unwrap_or_default();
    let instance = arguments.text("instance").unwrap_or_default().to_owned();
    let mut record = arguments.into_map();
    record.remove("force");
    if record.len() == 1 {
        fleet.order(|membership| membership.lift(&instance)).await?;
    } else {
        let member: Member = serde_json::from_value(Value::Object(record)).map_err(|error| {
            Failure::new(code::INVALID_PARAMS, format!("not a node record: {error}"))
        })?;
        fleet
            .order(|membership| membership.enable(member, force))
            .await?;
    }
    Ok(now(fleet))
}

async fn drain(fleet: &Fleet, arguments: Arguments) -> Result<Value, Failure> {
    let (instance, force) = target(&arguments);
    fleet
        .order(|membership| membership.drain(instance, force))
        .await?;
    Ok(now(fleet))
}

async fn remove(fleet: &Fleet, arguments: Arguments) -> Result<Value, Failure> {
    let (instance, force) = target(&arguments);
    fleet
        .order(|membership| membership.remove(instance, force))
        .await?;
    Ok(now(fleet))
}

fn target(arguments: &Arguments) -> (&str, bool) {
    let instance = arguments.text("instance").unwrap_or_default();
    (instance, arguments.truth("force").unwrap_or_default())
}

/// What an order leads to.
fn now(fleet: &Fleet) -> Value {
    let generation = fleet.set().map(|published| published.set.generation());
    json!({ "generation": generation })
}

async fn list_registrations(fleet: &Fleet, arguments: Arguments) -> Result<Value, Failure> {
    let nodes = asked(fleet)?;
    let limit = usize::try_from(arguments.number("limit").unwrap_or(PAGE)).unwrap_or(usize::MAX);
    let after = arguments.text("after").unwrap_or_default();
    let (page, unanswered) = registrations::list(&fleet.nodes, &nodes, limit, after).await;
    with_unanswered(fleet, page, nodes.len(), &unanswered)
}

async fn histograms(fleet: &Fleet, arguments: Arguments) -> Result<Value, Failure> {
    let nodes = asked(fleet)?;
    let asked = fleet.nodes.ask(&nodes, metrics).await;
    let mut sum = Histograms::default();
    for (_, page) in &asked.answers {
        sum.add(page);
    }
    let shown = json!({ "histograms": sum.shown(arguments.text("name")) });
    with_unanswered(fleet, shown, nodes.len(), &asked.unanswered)
}

fn asked(fleet: &Fleet) -> Result<Vec<Member>, Failure> {
    let nodes = fleet.members();
    if nodes.is_empty() {
        return Err(no_members());
    }
    Ok(nodes)
}

/// Adds how many nodes answered, and which did not. Without any answer, the call fails.
fn with_unanswered(
    fleet: &Fleet,
    mut result: Value,
    asked: usize,
    unanswered: &[Unanswered],
) -> Result<Value, Failure> {
    for _ in unanswered {
        count(&fleet.counters.node_errors);
    }
    let answered = asked - unanswered.len();
    if answered == 0 {
        let first = unanswered
            .first()
            .map(|it| format!("{}: {}", it.name, it.error))
            .unwrap_or_default();
        return Err(Failure::new(
            code::UNAVAILABLE,
            format!("no node answers; {first}"),
        ));
    }
    if let Some(result) = result.as_object_mut() {
        result.insert("answered".to_owned(), answered.into());
        result.insert("unanswered".to_owned(), json!(unanswered));
    }
    Ok(result)
}

async fn add_users(fleet: &Fleet, arguments: Arguments) -> Result<Value, Failure> {
    let text = |name: &str, default: &str| arguments.text(name).unwrap_or(default).to_owned();
    let users = TestUsers {
        domain: text("domain", ""),
        user: text("user", "user{}"),
        password: text("password", "password{}"),
        first: arguments.number("first").unwrap_or_default(),
        count: arguments.number("count").unwrap_or_default(),
        replace: arguments.truth("replace").unwrap_or_default(),
    };
    if let Some(problem) = users.problem() {
        return Err(Failure::new(code::INVALID_PARAMS, problem));
    }
    let database = fleet.database.as_ref();
    let database = database
        .ok_or_else(|| Failure::refused("the controller has no database: set `database.url`"))?;
    database.add(users).await
}
