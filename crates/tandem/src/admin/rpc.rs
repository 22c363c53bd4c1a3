//! JSON-RPC 2.0: reads requests, notifications and batches, and answers with the error codes of the specification.
use super::failure::{Failure, code};
use super::methods;
use crate::control::Control;
use serde_json::{Map, Value, json};

/// Maximum number of calls in one batch.
const LARGEST_BATCH: usize = 100;

/// Answers a request or a batch; `None` if it contains only notifications.
pub async fn answer(control: &Control, body: &[u8]) -> Option<Value> {
    let request: Value = match serde_json::from_slice(body) {
        Ok(request) => request,
        Err(error) => {
            return Some(failed(
                &Value::Null,
                Failure::new(code::PARSE_ERROR, format!("invalid JSON: {error}")),
            ));
        }
    };
    match request {
        Value::Array(batch) => answer_batch(control, batch).await,
        single => answer_one(control, single).await,
    }
}

async fn answer_batch(control: &Control, batch: Vec<Value>) -> Option<Value> {
    if batch.is_empty() {
        return Some(failed(
            &Value::Null,
            Failure::new(code::INVALID_REQUEST, "the batch is empty"),
        ));
    }
    if batch.len() > LARGEST_BATCH {
        let problem = format!(
            "{} calls in one batch; at most {LARGEST_BATCH} are allowed",
            batch.len()
        );
        return Some(failed(
            &Value::Null,
            Failure::new(code::INVALID_REQUEST, problem),
        ));
    }
    let mut answers = Vec::new();
    for request in batch {
        answers.extend(answer_one(control, request).await);
    }
    (!answers.is_empty()).then_some(Value::Array(answers))
}

async fn answer_one(control: &Control, request: Value) -> Option<Value> {
    let call = match Call::read(request) {
        Ok(call) => call,
        Err((id, failure)) => return Some(failed(&id, failure)),
    };
    let result = methods::call(control, &call.method, call.params).await;
    let id = call.id?;
    Some(match result {
        Ok(result) => json!({ "jsonrpc": "2.0", "id": id, "result": result }),
        Err(failure) => failed(&id, failure),
    })
}

fn failed(id: &Value, failure: Failure) -> Value {
    let mut error = json!({ "code": failure.code, "message": failure.message });
    if let (Some(error), false) = (error.as_object_mut(), failure.details.is_empty()) {
        error.insert("data".to_owned(), Value::from(failure.details));
    }
    json!({ "jsonrpc": "2.0", "id": id, "error": error })
}

/// A valid request object.
struct Call {
    /// `None` for a notification, which is never answered.
    id: Option<Value>,
    method: String,
    params: Value,
}

impl Call {
    /// Checks a request object. An error includes the id of the response.
    fn read(request: Value) -> Result<Self, (Value, Failure)> {
        let invalid = |id: Value, problem: &str| (id, Failure::new(code::INVALID_REQUEST, problem));
        let Value::Object(mut request) = request else {
            return Err(invalid(Value::Null, "a request must be an object"));
        };
        let id = request.remove("id");
        if id
            .as_ref()
            .is_some_and(|id| !matches!(id, Value::Null | Value::Number(_) | Value::String(_)))
        {
            return Err(invalid(Value::Null, "`id` must be a string or a number"));
        }
        let answer_to = id.clone().unwrap_or_default();
        if request.get("jsonrpc").and_then(Value::as_str) != Some("2.0") {
            return Err(invalid(answer_to, "`jsonrpc` must be \"2.0\""));
        }
        let Some(Value::String(method)) = request.remove("method") else {
            return Err(invalid(answer_to, "`method` must be a string"));
        };
        let params = request
            .remove("params")
            .unwrap_or_else(|| Value::Object(Map::new()));
        if !matches!(params, Value::Object(_) | Value::Array(_)) {
            return Err(invalid(answer_to, "`params` must be an object or an array"));
        }
        Ok(Self { id, method, params })
    }
}
