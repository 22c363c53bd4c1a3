//! The REST syntax of the methods: path, query and body become the arguments of a method.

use super::methods::{self, METHODS, Method};
use super::{answer, is_json, not_json, problem};
use crate::controller::Fleet;
use axum::Router;
use axum::body::Bytes;
use axum::extract::rejection::QueryRejection;
use axum::extract::{Path, Query, State};
use axum::http::{HeaderMap, StatusCode};
use axum::response::Response;
use axum::routing::{MethodFilter, on};
use serde_json::{Map, Value};
use std::sync::Arc;
use tandem_http::rpc::{Failure, Param, code};

type Pairs = Vec<(String, String)>;

/// Adds the paths of all methods.
pub(super) fn add(mut router: Router<Arc<Fleet>>) -> Router<Arc<Fleet>> {
    for method in METHODS {
        for (verb, path) in method.paths {
            let filter = match *verb {
                "POST" => MethodFilter::POST,
                "DELETE" => MethodFilter::DELETE,
                _ => MethodFilter::GET,
            };
            let handler = move |State(fleet): State<Arc<Fleet>>,
                                Path(captured): Path<Pairs>,
                                query: Result<Query<Pairs>, QueryRejection>,
                                headers: HeaderMap,
                                body: Bytes| async move {
                let query = match query {
                    Ok(Query(query)) => query,
                    Err(wrong) => return problem(StatusCode::BAD_REQUEST, &wrong.body_text()),
                };
                if !body.is_empty() && !is_json(&headers) {
                    return not_json();
                }
                let params = match params(method, captured, query, &body) {
                    Ok(params) => params,
                    Err(wrong) => return problem(StatusCode::BAD_REQUEST, &wrong),
                };
                respond(methods::call(&fleet, method.name, params).await)
            };
            router = router.route(path, on(filter, handler));
        }
    }
    router
}

/// The arguments of a call. What the path says cannot be said again.
fn params(method: &Method, captured: Pairs, query: Pairs, body: &[u8]) -> Result<Value, String> {
    let mut params = match body {
        [] => Map::new(),
        body => match serde_json::from_slice(body) {
            Ok(Value::Object(params)) => params,
            Ok(_) => return Err("the body must be a JSON object".to_owned()),
            Err(error) => return Err(format!("invalid JSON: {error}")),
        },
    };
    for (name, text) in query.into_iter().chain(captured) {
        let kind = method.params.iter().find(|(known, ..)| *known == name);
        let value = typed(kind.map(|(_, kind, _)| *kind), text);
        if params.insert(name.clone(), value).is_some() {
            return Err(format!("`{name}` is given twice"));
        }
    }
    Ok(Value::Object(params))
}

/// A text of path or query as the type of its parameter, or as it is, which the check of the arguments then refuses.
fn typed(kind: Option<Param>, text: String) -> Value {
    match kind {
        Some(Param::Truth) => match text.as_str() {
            "" | "true" | "1" => Value::Bool(true),
            "false" | "0" => Value::Bool(false),
            _ => text.into(),
        },
        Some(Param::Number(..)) => match text.parse::<u64>() {
            Ok(number) => number.into(),
            Err(_) => text.into(),
        },
        _ => text.into(),
    }
}

fn respond(result: Result<Value, Failure>) -> Response {
    let failure = match result {
        Ok(result) => return answer(StatusCode::OK, &result),
        Err(failure) => failure,
    };
    let status = match failure.code {
        code::INVALID_PARAMS => StatusCode::BAD_REQUEST,
        code::NOT_FOUND => StatusCode::NOT_FOUND,
        code::REFUSED => StatusCode::CONFLICT,
        code::UNAVAILABLE => StatusCode::SERVICE_UNAVAILABLE,
        _ => StatusCode::INTERNAL_SERVER_ERROR,
    };
    problem(status, &failure.message)
}
