//! `tandem ctl methods`: the catalogue of methods, which needs no server.
use super::table::Table;
use crate::admin::{self, METHODS};

/// The methods with their parameters, as a table or as JSON.
pub fn text(as_json: bool) -> String {
    if as_json {
        return format!("{:#}\n", admin::catalogue());
    }
    let mut table = Table::new(["METHOD", "PARAMETERS", "SUMMARY"]);
    for method in METHODS {
        let params: Vec<String> = method
            .params
            .iter()
            .map(|(name, _, required)| match required {
                true => (*name).to_owned(),
                false => format!("[{name}]"),
            })
            .collect();
        table.row([&method.name, &params.join(" "), &method.summary]);
    }
    table.to_string()
}
