//! Parameters of a method from the command line.
use anyhow::{Context as _, anyhow};
use serde_json::{Map, Value};

/// Reads one JSON object, or `key=value` pairs whose values may be JSON.
pub fn read(given: &[String]) -> anyhow::Result<Value> {
    if let [only] = given
        && only.trim_start().starts_with(['{', '['])
    {
        return serde_json::from_str(only).context("the parameters are not JSON");
    }
    let mut params = Map::new();
    for pair in given {
        let (key, value) = pair.split_once('=').ok_or_else(|| {
            anyhow!("`{pair}` is not a parameter: write key=value, or a single JSON object")
        })?;
        let value = serde_json::from_str(value).unwrap_or_else(|_| Value::from(value));
        params.insert(key.to_owned(), value);
    }
    Ok(Value::Object(params))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn parameters_are_pairs_or_one_object() {
        let read = |given: &[&str]| {
            let given: Vec<String> = given.iter().map(|&text| text.to_owned()).collect();
            read(&given).map_err(|problem| problem.to_string())
        };
        assert_eq!(read(&[]), Ok(json!({})));
        assert_eq!(
            read(&["limit=5", "after=a@b", "on=true"]),
            Ok(json!({ "limit": 5, "after": "a@b", "on": true }))
        );
        assert_eq!(read(&[r#"{"limit": 5}"#]), Ok(json!({ "limit": 5 })));
        assert!(read(&["limit"]).is_err_and(|problem| problem.contains("key=value")));
        assert!(read(&["{limit}"]).is_err_and(|problem| problem.contains("not JSON")));
    }
}
