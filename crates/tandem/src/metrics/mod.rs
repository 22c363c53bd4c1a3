//! Metrics of a page that Prometheus scrapes: what describes each one, and how its values are read.
//!
//! A [`Metric`] is both: its description becomes the `HELP`, `TYPE` and `UNIT` lines and a row of the documentation, and its reader is
//! called at each scrape. The values themselves live where they are counted. On the call path that is one counter per worker, which the
//! reader sums; no registry is involved.

mod certificates;
mod metric;
mod page;
mod reference;
mod samples;

pub(crate) use certificates::certificates;
pub(crate) use metric::Metric;
pub(crate) use page::{CONTENT_TYPE, page};
pub(crate) use reference::table;
pub(crate) use samples::{Kind, Samples};

#[cfg(test)]
mod tests {
    use super::*;
    use prometheus_client::collector::Collector;
    use prometheus_client::encoding::DescriptorEncoder;
    use std::fmt;

    const METRICS: &[Metric<u64>] = &[
        Metric::<u64>::gauge("t_a", "An a", |source| *source),
        Metric::<u64>::family("t_b_total", Kind::Counter, "A b", |source, samples| {
            samples.labelled(&["1\"\\\n", "2"], *source)
        })
        .labels(&["x", "y"])
        .details("More about `b`"),
        Metric::<u64>::family("t_c_seconds", Kind::Histogram, "A c", |source, samples| {
            let buckets = [(0.5, 1), (1.0, 2), (f64::INFINITY, *source)];
            samples.histogram(&["n"], &buckets, 9.25)
        })
        .labels(&["m"]),
        Metric::<u64>::counter("t_d_bytes_total", "A d", |source| *source),
    ];

    #[derive(Debug)]
    struct Source(u64);

    impl Collector for Source {
        fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
            let mut metrics = METRICS.iter();
            metrics.try_for_each(|metric| metric.encode(&self.0, &mut encoder))
        }
    }

    #[test]
    fn a_page_has_the_full_names_escaped_labels_and_cumulative_histograms() {
        let expected = r#"# HELP t_a An a
# TYPE t_a gauge
t_a 3
# HELP t_b A b
# TYPE t_b counter
t_b_total{x="1\"\\\n",y="2"} 3
# HELP t_c_seconds A c
# TYPE t_c_seconds histogram
# UNIT t_c_seconds seconds
t_c_seconds_sum{m="n"} 9.25
t_c_seconds_count{m="n"} 6
t_c_seconds_bucket{le="0.5",m="n"} 1
t_c_seconds_bucket{le="1.0",m="n"} 3
t_c_seconds_bucket{le="+Inf",m="n"} 6
# HELP t_d_bytes A d
# TYPE t_d_bytes counter
# UNIT t_d_bytes bytes
t_d_bytes_total 3
# EOF
"#;
        assert_eq!(page(Source(3)), expected);
    }

    #[test]
    fn the_table_has_a_row_for_each_metric() {
        let expected = "\
| name | type | labels | meaning |
| --- | --- | --- | --- |
| `t_a` | gauge |  | An a |
| `t_b_total` | counter | `x`, `y` | A b. More about `b` |
| `t_c_seconds` | histogram | `m` | A c |
| `t_d_bytes_total` | counter |  | A d |
";
        assert_eq!(table(METRICS), expected);
    }
}
