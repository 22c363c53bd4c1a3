//! The result of `dialogs.stats` as text.
use crate::ctl::table::Table;
use serde::Deserialize;
use std::collections::BTreeMap;
use std::fmt;

#[derive(Deserialize)]
pub(super) struct DialogStats {
    total: Counts,
    workers: Vec<Counts>,
}

#[derive(Deserialize)]
struct Counts {
    created: u64,
    refused: u64,
    /// By cause.
    ended: BTreeMap<String, u64>,
    early: u64,
    confirmed: u64,
    bytes: u64,
}

impl DialogStats {
    /// Each worker and the total, with their names.
    fn rows(&self) -> impl Iterator<Item = (String, &Counts)> {
        let workers = self.workers.iter().enumerate();
        let workers = workers.map(|(number, counts)| (number.to_string(), counts));
        workers.chain([("total".to_owned(), &self.total)])
    }

    fn live(&self) -> Table {
        let mut table = Table::new([
            "WORKER",
            "CREATED",
            "EARLY",
            "CONFIRMED",
            "ENDED",
            "REFUSED",
            "BYTES",
        ]);
        for (name, counts) in self.rows() {
            table.row([
                &name,
                &counts.created,
                &counts.early,
                &counts.confirmed,
                &counts.ended.values().sum::<u64>(),
                &counts.refused,
                &counts.bytes,
            ]);
        }
        table
    }

    fn causes(&self) -> Table {
        let mut table = Table::new([
            "ENDED BY",
            "CALLER",
            "CALLEE",
            "REFUSED",
            "NO ANSWER",
            "NO ACK",
            "EXPIRED",
            "OPERATOR",
        ]);
        for (name, Counts { ended, .. }) in self.rows() {
            let of = |cause| ended.get(cause).copied().unwrap_or_default();
            table.row([
                &name,
                &of("caller"),
                &of("callee"),
                &of("refused"),
                &of("no_answer"),
                &of("no_ack"),
                &of("expired"),
                &of("operator"),
            ]);
        }
        table
    }
}

impl fmt::Display for DialogStats {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            formatter,
            "{}\n{}",
            self.live(),
            self.causes().to_string().trim_end()
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn workers_and_their_sum_are_shown_by_state_and_by_cause() {
        let counts = |operator: u64| {
            json!({
                "created": 5, "refused": 1, "early": 2, "confirmed": 1, "bytes": 900,
                "ended": { "caller": 2, "operator": operator },
            })
        };
        let stats = json!({ "total": counts(1), "workers": [counts(0), counts(1)] });
        let stats: DialogStats = serde_json::from_value(stats).expect("the fields");
        let expected = "\
WORKER  CREATED  EARLY  CONFIRMED  ENDED  REFUSED  BYTES
0             5      2          1      2        1    900
1             5      2          1      3        1    900
total         5      2          1      3        1    900

ENDED BY  CALLER  CALLEE  REFUSED  NO ANSWER  NO ACK  EXPIRED  OPERATOR
0              2       0        0          0       0        0         0
1              2       0        0          0       0        0         1
total          2       0        0          0       0        0         1
";
        assert_eq!(stats.to_string(), expected);
    }
}
