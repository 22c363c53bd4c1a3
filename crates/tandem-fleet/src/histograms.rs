//! Histograms of the fleet: those of the nodes' metrics pages, summed by name and labels.
//!
//! A page is that of Prometheus or of `OpenMetrics`. Bounds that only some nodes have are left out, because the others' counts at these bounds
//! are unknown. All remaining counts are exact.

use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};

/// Largest number of histograms of a page.
const MOST: usize = 20_000;

/// Name and labels of a histogram.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Series {
    name: String,
    labels: BTreeMap<String, String>,
}

/// A histogram with cumulative counts.
#[derive(Clone, Debug, Default, PartialEq)]
struct Histogram {
    /// By the text of the upper bound in seconds, in the order of the bounds.
    buckets: Vec<(f64, f64)>,
    sum: f64,
    count: f64,
}

/// The sum of the histograms of several pages.
#[derive(Debug, Default)]
pub(crate) struct Histograms(BTreeMap<Series, Histogram>);

impl Histograms {
    /// Adds the histograms of a page. Lines that are no samples of a histogram are skipped.
    pub(crate) fn add(&mut self, page: &str) {
        for (series, histogram) in read(page) {
            match self.0.get_mut(&series) {
                Some(sum) => sum.add(&histogram),
                None => {
                    self.0.insert(series, histogram);
                }
            }
        }
    }

    /// Those whose name is `name`, or all, as JSON.
    pub(crate) fn shown(&self, name: Option<&str>) -> Value {
        let wanted = self
            .0
            .iter()
            .filter(|(series, _)| name.is_none_or(|name| name == series.name));
        wanted
            .map(|(series, histogram)| histogram.shown(series))
            .collect()
    }
}

impl Histogram {
    fn add(&mut self, other: &Self) {
        self.buckets.retain_mut(|(bound, count)| {
            let same = other
                .buckets
                .iter()
                .find(|(it, _)| it.total_cmp(bound).is_eq());
            if let Some((_, more)) = same {
                *count += more;
            }
            same.is_some()
        });
        self.sum += other.sum;
        self.count += other.count;
    }

    /// The smallest bound below which this share of the values lies; `None` without values, or if it is above all bounds.
    fn quantile(&self, share: f64) -> Option<f64> {
        let rank = self.count * share;
        let reached = self
            .buckets
            .iter()
            .find(|(_, count)| *count >= rank && self.count > 0.0);
        reached
            .map(|(bound, _)| *bound)
            .filter(|bound| bound.is_finite())
    }

    fn shown(&self, series: &Series) -> Value {
        let bound = |bound: f64| {
            if bound.is_finite() {
                json!(bound)
            } else {
                json!("+Inf")
            }
        };
        let buckets: Vec<Value> = self
            .buckets
            .iter()
            .map(|(le, count)| json!({ "le": bound(*le), "count": count }))
            .collect();
        json!({
            "name": series.name, "labels": series.labels, "count": self.count, "sum": self.sum, "buckets": buckets,
            "p50": self.quantile(0.5), "p90": self.quantile(0.9), "p99": self.quantile(0.99),
        })
    }
}

fn read(page: &str) -> BTreeMap<Series, Histogram> {
    let mut names = BTreeSet::new();
    let mut found: BTreeMap<Series, Histogram> = BTreeMap::new();
    for line in page.lines() {
        if let Some(comment) = line.strip_prefix("# TYPE ") {
            if let Some((name, "histogram")) = comment.split_once(' ') {
                names.insert(name);
            }
            continue;
        }
        let Some(Sample {
            name,
            mut labels,
            value,
        }) = sample(line)
        else {
            continue;
        };
        let mut parts = ["_bucket", "_sum", "_count"].into_iter();
        let part = parts.find_map(|part| Some((name.strip_suffix(part)?, part)));
        let Some((name, part)) = part else {
            continue;
        };
        if !names.contains(name) || found.len() >= MOST {
            continue;
        }
        let bound = labels.remove("le");
        let series = Series {
            name: name.to_owned(),
            labels,
        };
        let histogram = found.entry(series).or_default();
        match (part, bound.map(|bound| bound.parse::<f64>())) {
            ("_bucket", Some(Ok(bound))) if !bound.is_nan() => {
                histogram.buckets.push((bound, value));
            }
            ("_sum", _) => histogram.sum = value,
            ("_count", _) => histogram.count = value,
            _ => {}
        }
    }
    for histogram in found.values_mut() {
        histogram
            .buckets
            .sort_by(|(one, _), (other, _)| one.total_cmp(other));
        histogram
            .buckets
            .dedup_by(|(one, _), (other, _)| one.total_cmp(other).is_eq());
    }
    found
}

/// The sum of the samples of a counter or gauge, over all its labels; `None` if the page does not have it.
pub(crate) fn total(page: &str, name: &str) -> Option<f64> {
    let mut values = page
        .lines()
        .filter_map(sample)
        .filter(|it| it.name == name)
        .map(|it| it.value)
        .peekable();
    values.peek()?;
    Some(values.sum())
}

/// A line of a page.
struct Sample<'p> {
    name: &'p str,
    labels: BTreeMap<String, String>,
    value: f64,
}

/// Reads `name{label="value",…} number`, with or without labels, timestamp and exemplar.
fn sample(line: &str) -> Option<Sample<'_>> {
    let name_end = line.find(['{', ' '])?;
    let (name, mut rest) = line.split_at_checked(name_end)?;
    let mut labels = BTreeMap::new();
    if let Some(mut inside) = rest.strip_prefix('{') {
        loop {
            inside = inside.trim_start_matches([',', ' ']);
            if let Some(after) = inside.strip_prefix('}') {
                rest = after;
                break;
            }
            let (label, value) = inside.split_once("=\"")?;
            let (value, after) = unquoted(value)?;
            labels.insert(label.to_owned(), value);
            inside = after;
        }
    }
    let value = rest.split_whitespace().next()?.parse().ok()?;
    (!name.is_empty() && !name.starts_with('#')).then_some(Sample {
        name,
        labels,
        value,
    })
}

/// The value of a label without its escapes, and what follows its closing quote.
fn unquoted(text: &str) -> Option<(String, &str)> {
    let mut value = String::new();
    let mut characters = text.char_indices();
    loop {
        match characters.next()? {
            (at, '"') => return Some((value, text.get(at + 1..)?)),
            (_, '\\') => value.push(match characters.next()?.1 {
                'n' => '\n',
                other => other,
            }),
            (_, other) => value.push(other),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PAGE: &str = r#"# HELP t_seconds Time
# TYPE t_seconds histogram
# UNIT t_seconds seconds
t_seconds_sum{m="INVITE"} 9.25
t_seconds_count{m="INVITE"} 10
t_seconds_bucket{le="0.5",m="INVITE"} 4
t_seconds_bucket{le="1.0",m="INVITE"} 9
t_seconds_bucket{le="+Inf",m="INVITE"} 10
# TYPE t_calls counter
t_calls_total{state="a \"x\", y}"} 3 1700000000
t_calls_total 4
t_calls_count 5
# EOF
"#;

    #[test]
    fn histograms_are_summed_by_name_and_labels() {
        let mut sum = Histograms::default();
        sum.add(PAGE);
        sum.add(PAGE);
        sum.add(&PAGE.replace("INVITE", "REGISTER"));
        let shown = sum.shown(None);
        assert_eq!(shown.as_array().map(Vec::len), Some(2), "{shown}");
        assert_eq!(
            shown[0],
            json!({
                "name": "t_seconds", "labels": { "m": "INVITE" }, "count": 20.0, "sum": 18.5,
                "buckets": [{ "le": 0.5, "count": 8.0 }, { "le": 1.0, "count": 18.0 }, { "le": "+Inf", "count": 20.0 }],
                "p50": 1.0, "p90": 1.0, "p99": null,
            })
        );
        assert_eq!(sum.shown(Some("other")), json!([]));
    }

    #[test]
    fn only_bounds_that_all_nodes_have_are_summed() {
        let mut sum = Histograms::default();
        sum.add(PAGE);
        sum.add(&PAGE.replace("le=\"0.5\"", "le=\"0.25\""));
        let shown = sum.shown(Some("t_seconds"));
        assert_eq!(
            shown[0]["buckets"],
            json!([{ "le": 1.0, "count": 18.0 }, { "le": "+Inf", "count": 20.0 }])
        );
    }

    #[test]
    fn a_counter_is_summed_over_its_labels() {
        assert_eq!(total(PAGE, "t_calls_total"), Some(7.0));
        assert_eq!(total(PAGE, "t_calls"), None);
    }

    #[test]
    fn lines_that_are_no_samples_are_skipped() {
        for line in [
            "",
            "a",
            "a{",
            "a{b",
            "a{b=\"",
            "a{b=\"\\",
            "{} 1",
            "a{b=\"c\"}",
            "a x",
            "é{\"=\"} 1",
        ] {
            assert!(sample(line).is_none_or(|it| !it.name.is_empty()), "{line}");
            let mut sum = Histograms::default();
            sum.add(line);
            assert_eq!(sum.shown(None), json!([]), "{line}");
        }
    }
}
