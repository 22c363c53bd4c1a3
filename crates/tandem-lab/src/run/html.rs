//! A report as a page: one file, with plots drawn in it.

use super::report::{Report, Second};
use std::fmt::Write;

const STYLE: &str = "body{font:15px/1.5 system-ui,sans-serif;max-width:60rem;margin:2rem auto;padding:0 1rem;color:#1b1f24}\
h1{font-size:1.4rem}h2{font-size:1.05rem;margin-top:2rem}table{border-collapse:collapse;font-variant-numeric:tabular-nums}\
td,th{padding:.2rem .9rem .2rem 0;text-align:right}td:first-child,th:first-child{text-align:left}\
tr+tr td{border-top:1px solid #e3e6ea}.doubt{background:#fff1e5;border-left:4px solid #bc4c00;padding:.5rem 1rem}\
svg{width:100%;height:auto}text{font:11px system-ui,sans-serif;fill:#57606a}";

const WIDTH: f64 = 900.0;
const HEIGHT: f64 = 220.0;
const LEFT: f64 = 60.0;
const BOTTOM: f64 = 24.0;

type Value = fn(&Second) -> f64;

impl Report {
    /// The report as a page.
    pub fn html(&self) -> String {
        let mut page = String::new();
        let server = self.server.as_deref().unwrap_or("itself");
        let title = format!("{} against {server}", self.profile);
        let _ = write!(
            page,
            "<!doctype html><html lang=en><meta charset=utf-8><meta name=viewport content='width=device-width'><title>{0}</title>\
             <style>{STYLE}</style><h1>{0}</h1>",
            escape(&title)
        );
        for doubt in &self.doubts {
            let _ = write!(
                page,
                "<p class=doubt>Do not trust this run: {}</p>",
                escape(doubt)
            );
        }
        let _ = write!(
            page,
            "<p>{} phones, {:.1} seconds, {:.1} units per second; generator {:.1} us of CPU per unit, busy {:.0} %</p>",
            self.phones,
            self.seconds,
            self.units_per_second,
            self.generator_cpu_us_per_unit,
            self.generator_busy * 100.0
        );
        self.write_units(&mut page);
        self.write_delays(&mut page);
        self.plot(
            &mut page,
            "Units per second",
            &[
                ("begun", "#0969da", |second| second.attempted as f64),
                ("failed", "#cf222e", |second| second.failed as f64),
            ],
        );
        self.plot(
            &mut page,
            "Delay, milliseconds",
            &[
                ("p50", "#0969da", |second| second.p50_us as f64 / 1e3),
                ("p99", "#bc4c00", |second| second.p99_us as f64 / 1e3),
            ],
        );
        self.plot(
            &mut page,
            "Units in progress",
            &[("in progress", "#0969da", |second| second.in_progress as f64)],
        );
        self.plot(
            &mut page,
            "Lateness of the generator, milliseconds",
            &[("latest", "#6e7781", |second| {
                second.lateness_us as f64 / 1e3
            })],
        );
        page.push_str("</html>\n");
        page
    }

    fn write_units(&self, page: &mut String) {
        page.push_str(
            "<h2>Units</h2><table><tr><th>kind<th>begun<th>well<th>failed<th>skipped</tr>",
        );
        for (kind, ends) in &self.units {
            let _ = write!(
                page,
                "<tr><td>{kind}<td>{}<td>{}<td>{}<td>{}</tr>",
                ends.attempted, ends.succeeded, ends.failed, ends.skipped
            );
        }
        page.push_str("</table>");
        if self.failures.is_empty() {
            return;
        }
        page.push_str("<h2>Failures</h2><table>");
        for (reason, count) in &self.failures {
            let _ = write!(page, "<tr><td>{}<td>{count}</tr>", escape(reason));
        }
        page.push_str("</table>");
    }

    fn write_delays(&self, page: &mut String) {
        page.push_str("<h2>Delays, milliseconds</h2><table><tr><th>delay<th>count<th>p50<th>p90<th>p99<th>p99.9<th>max</tr>");
        for (name, delay) in &self.delays {
            let _ = write!(
                page,
                "<tr><td>{}<td>{}",
                name.replace('_', " "),
                delay.count
            );
            for value in [delay.p50, delay.p90, delay.p99, delay.p999, delay.max] {
                let _ = write!(page, "<td>{:.3}", value as f64 / 1e3);
            }
            page.push_str("</tr>");
        }
        page.push_str("</table>");
    }

    /// A plot over the time of the run.
    fn plot(&self, page: &mut String, title: &str, lines: &[(&str, &str, Value)]) {
        let seconds = || self.timeline.iter();
        let longest = seconds().map(|second| second.time).fold(1e-9, f64::max);
        let values = lines.iter().flat_map(|(_, _, value)| seconds().map(value));
        let highest = values.fold(1e-9, f64::max);
        let x = |time: f64| LEFT + time / longest * (WIDTH - LEFT);
        let y = |value: f64| (HEIGHT - BOTTOM) * (1.0 - value / highest) + 6.0;
        let _ = write!(
            page,
            "<h2>{title}</h2><svg viewBox='0 0 {WIDTH} {HEIGHT}' role=img aria-label='{title}'>"
        );
        for part in [0.0, 0.5, 1.0] {
            let (value, place) = (highest * part, y(highest * part));
            let _ = write!(
                page,
                "<line x1={LEFT} x2={WIDTH} y1={place:.1} y2={place:.1} stroke='#d8dee4'/>\
                 <text x={:.0} y={:.1} text-anchor=end>{value:.4}</text>",
                LEFT - 6.0,
                place + 4.0
            );
        }
        for (place, (name, color, value)) in lines.iter().enumerate() {
            let points: Vec<String> = seconds()
                .map(|second| format!("{:.1},{:.1}", x(second.time), y(value(second))))
                .collect();
            let _ = write!(
                page,
                "<polyline fill=none stroke='{color}' stroke-width=2 points='{}'/>\
                 <text x={:.0} y={HEIGHT} style='fill:{color}'>{name}</text>",
                points.join(" "),
                LEFT + 90.0 * place as f64
            );
        }
        let _ = write!(
            page,
            "<text x={WIDTH} y={HEIGHT} text-anchor=end>{longest:.0} s</text></svg>"
        );
    }
}

fn escape(text: &str) -> String {
    text.replace('&', "&amp;")
        .replace('<', "&lt;")
        .replace('>', "&gt;")
}
