//! JSON-RPC 2.0: reads requests, notifications and batches, and answers with the error codes of the specification.

mod arguments;
mod failure;
mod near;

pub use arguments::{Arguments, Param, Params};
pub use failure::{Failure, code};
pub use near::nearest;

use serde_json::{Map, Value, json};

/// Maximum number of calls in one batch.
const LARGEST_BATCH: usize = 100;
/// The bytes of answers after which the rest of a batch is not run.
const LARGEST_ANSWERS: usize = 16 << 20;

/// Answers a request or a batch, as JSON; `None` if it contains only notifications.
///
/// `call` runs a method with its parameters.
pub async fn answer<C, F>(call: C, body: &[u8]) -> Option<String>
where
    C: Fn(String, Value) -> F,
    F: Future<Output = Result<Value, Failure>>,
{
    let request: Value = match serde_json::from_slice(body) {
        Ok(request) => request,
        Err(error) => {
            let failure = Failure::new(code::PARSE_ERROR, format!("invalid JSON: {error}"));
            return Some(failed(&Value::Null, failure));
        }
    };
    match request {
        Value::Array(batch) => answer_batch(call, batch).await,
        single => match Call::read(single) {
            Ok(one) => answer_one(&call, one).await,
            Err((id, failure)) => Some(failed(&id, failure)),
        },
    }
}

async fn answer_batch<C, F>(call: C, batch: Vec<Value>) -> Option<String>
where
    C: Fn(String, Value) -> F,
    F: Future<Output = Result<Value, Failure>>,
{
    let invalid = |problem: String| {
        let failure = Failure::new(code::INVALID_REQUEST, problem);
        Some(failed(&Value::Null, failure))
    };
    if batch.is_empty() {
        return invalid("the batch is empty".to_owned());
    }
    if batch.len() > LARGEST_BATCH {
        return invalid(format!(
            "{} calls in one batch; at most {LARGEST_BATCH} are allowed",
            batch.len()
        ));
    }
    let mut answers = Vec::new();
    let mut bytes = 0;
    for request in batch {
        let answer = match Call::read(request) {
            Ok(Call { id: Some(id), .. }) if bytes >= LARGEST_ANSWERS => {
                let problem = "not run, because the answers before it in the batch are too large: send it again in another batch";
                Some(failed(&id, Failure::refused(problem)))
            }
            Ok(one) => answer_one(&call, one).await,
            Err((id, failure)) => Some(failed(&id, failure)),
        };
        bytes += answer.as_ref().map_or(0, String::len);
        answers.extend(answer);
    }
    (!answers.is_empty()).then(|| format!("[{}]", answers.join(",")))
}

/// Runs a call; `None` if it is a notification.
async fn answer_one<C, F>(call: &C, one: Call) -> Option<String>
where
    C: Fn(String, Value) -> F,
    F: Future<Output = Result<Value, Failure>>,
{
    let result = call(one.method, one.params).await;
    let id = one.id?;
    Some(match result {
        // `json!` would copy the result.
        Ok(result) => format!(r#"{{"jsonrpc":"2.0","id":{id},"result":{result}}}"#),
        Err(failure) => failed(&id, failure),
    })
}

fn failed(id: &Value, failure: Failure) -> String {
    let mut error = json!({ "code": failure.code, "message": failure.message });
    if let (Some(error), false) = (error.as_object_mut(), failure.details.is_empty()) {
        error.insert("data".to_owned(), Value::from(failure.details));
    }
    json!({ "jsonrpc": "2.0", "id": id, "error": error }).to_string()
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

#[cfg(test)]
mod tests {
    use super::*;

    /// Calls `node.version` with an id of this many bytes.
    fn call(bytes: usize) -> Value {
        json!({ "jsonrpc": "2.0", "id": "x".repeat(bytes), "method": "node.version" })
    }

    async fn version(method: String, _: Value) -> Result<Value, Failure> {
        assert_eq!(method, "node.version");
        Ok(json!({ "version": "1" }))
    }

    #[tokio::test]
    async fn calls_of_a_batch_beyond_the_largest_answers_are_not_run_and_say_so() {
        let large = LARGEST_ANSWERS / 2;
        let notified = json!({ "jsonrpc": "2.0", "method": "node.version" });
        let wrong = json!({ "jsonrpc": "2.0", "id": 1 });
        let batch = json!([call(large), call(large), call(1), notified, wrong, call(2)]);
        let answers = answer(version, batch.to_string().as_bytes()).await;
        let answers: Value = serde_json::from_str(&answers.expect("answers")).expect("JSON");
        let answers = answers.as_array().expect("a list");
        let has_run = |answer: &Value| answer["result"]["version"].is_string();
        let have_run: Vec<bool> = answers.iter().map(has_run).collect();
        assert_eq!(have_run, [true, true, false, false, false]);
        for (place, id) in [(2, "x"), (4, "xx")] {
            let refused = &answers[place];
            assert_eq!(
                (&refused["id"], &refused["error"]["code"]),
                (&json!(id), &json!(-32_000))
            );
            let message = refused["error"]["message"].as_str().expect("a message");
            assert!(
                message.starts_with("not run, because the answers"),
                "{message}"
            );
        }
        assert_eq!(answers[3]["error"]["code"], code::INVALID_REQUEST);
    }
}
