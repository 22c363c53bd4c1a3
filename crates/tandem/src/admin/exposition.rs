//! Writer of Prometheus' text format 0.0.4: families with help and type, samples with labels.
use std::fmt::{Display, Write as _};

/// The type of a family.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Only increases.
    Counter,
    /// Increases and decreases.
    Gauge,
    /// Buckets, sum and count.
    Histogram,
}

/// A page being written.
#[derive(Debug, Default)]
pub struct Exposition(String);

impl Exposition {
    /// Starts a family; its samples follow.
    pub fn family(&mut self, name: &'static str, kind: Kind, help: &str) -> Family<'_> {
        let kind = match kind {
            Kind::Counter => "counter",
            Kind::Gauge => "gauge",
            Kind::Histogram => "histogram",
        };
        let _ = writeln!(self.0, "# HELP {name} {help}\n# TYPE {name} {kind}");
        Family {
            page: &mut self.0,
            name,
        }
    }

    /// Writes a counter without labels.
    pub fn counter(&mut self, name: &'static str, help: &str, value: u64) {
        self.family(name, Kind::Counter, help).sample(&[], value);
    }

    /// Writes a gauge without labels.
    pub fn gauge(&mut self, name: &'static str, help: &str, value: impl Display) {
        self.family(name, Kind::Gauge, help).sample(&[], value);
    }

    /// Returns the page.
    pub fn into_text(self) -> String {
        self.0
    }
}

/// A family being written.
#[derive(Debug)]
pub struct Family<'p> {
    page: &'p mut String,
    name: &'static str,
}

impl Family<'_> {
    /// Adds a sample.
    pub fn sample(&mut self, labels: &[(&str, &str)], value: impl Display) -> &mut Self {
        self.suffixed("", labels, value);
        self
    }

    /// Adds a histogram: the count of each bucket, with upper bounds in seconds; the last count is for `+Inf`. `sum` is in seconds.
    pub fn histogram(&mut self, labels: &[(&str, &str)], bounds: &[f64], counts: &[u64], sum: f64) {
        let mut total = 0;
        for (place, count) in counts.iter().enumerate() {
            total += count;
            let bound = bounds
                .get(place)
                .map_or_else(|| "+Inf".to_owned(), ToString::to_string);
            let labels: Vec<(&str, &str)> = labels
                .iter()
                .copied()
                .chain([("le", bound.as_str())])
                .collect();
            self.suffixed("_bucket", &labels, total);
        }
        self.suffixed("_sum", labels, sum);
        self.suffixed("_count", labels, total);
    }

    fn suffixed(&mut self, suffix: &str, labels: &[(&str, &str)], value: impl Display) {
        let _ = write!(self.page, "{}{suffix}", self.name);
        for (place, (label, content)) in labels.iter().enumerate() {
            let begin = if place == 0 { '{' } else { ',' };
            let _ = write!(self.page, "{begin}{label}=\"{}\"", escaped(content));
        }
        let end = if labels.is_empty() { "" } else { "}" };
        let _ = writeln!(self.page, "{end} {value}");
    }
}

fn escaped(content: &str) -> String {
    content
        .replace('\\', "\\\\")
        .replace('"', "\\\"")
        .replace('\n', "\\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn samples_carry_escaped_labels_and_histograms_are_cumulative() {
        let mut page = Exposition::default();
        page.gauge("a", "An a.", 1.5);
        page.family("b", Kind::Counter, "A b.")
            .sample(&[("x", "1\"\\\n"), ("y", "2")], 3);
        page.family("c", Kind::Histogram, "A c.").histogram(
            &[("m", "n")],
            &[0.5, 1.0],
            &[1, 2, 3],
            9.25,
        );
        let expected = r#"# HELP a An a.
# TYPE a gauge
a 1.5
# HELP b A b.
# TYPE b counter
b{x="1\"\\\n",y="2"} 3
# HELP c A c.
# TYPE c histogram
c_bucket{m="n",le="0.5"} 1
c_bucket{m="n",le="1"} 3
c_bucket{m="n",le="+Inf"} 6
c_sum{m="n"} 9.25
c_count{m="n"} 6
"#;
        assert_eq!(page.into_text(), expected);
    }
}
