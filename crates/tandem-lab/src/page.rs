//! Reports as pages: one file each, with tables and with plots drawn in it.

use std::fmt::{Display, Write};

const STYLE: &str = "body{font:15px/1.5 system-ui,sans-serif;max-width:60rem;margin:2rem auto;padding:0 1rem;color:#1b1f24}\
h1{font-size:1.4rem}h2{font-size:1.05rem;margin-top:2rem}table{border-collapse:collapse;font-variant-numeric:tabular-nums}\
td,th{padding:.2rem .9rem .2rem 0;text-align:right}td:first-child,th:first-child{text-align:left}\
tr+tr td{border-top:1px solid #e3e6ea}.doubt{background:#fff1e5;border-left:4px solid #bc4c00;padding:.5rem 1rem}\
svg{width:100%;height:auto}text{font:11px system-ui,sans-serif;fill:#57606a}";

const COLORS: [&str; 6] = [
    "#0969da", "#bc4c00", "#1a7f37", "#8250df", "#cf222e", "#6e7781",
];

const WIDTH: f64 = 900.0;
const HEIGHT: f64 = 260.0;
const LEFT: f64 = 64.0;
const RIGHT: f64 = 20.0;
const TOP: f64 = 10.0;
const BOTTOM: f64 = 48.0;

/// A page that is being written.
#[derive(Clone, Debug)]
pub(crate) struct Page(String);

/// What a plot shows.
#[derive(Clone, Debug)]
pub(crate) struct Plot<'a> {
    pub(crate) title: &'a str,
    /// What lies along the horizontal axis, with its unit.
    pub(crate) across: &'a str,
    /// Name and points of each line.
    pub(crate) lines: Vec<(String, Vec<(f64, f64)>)>,
    /// A limit, drawn across.
    pub(crate) limit: Option<f64>,
    /// The vertical axis ends there; what is above it is drawn at its end. `None`: where the points end.
    pub(crate) highest: Option<f64>,
}

impl Page {
    pub(crate) fn new(title: &str) -> Self {
        let title = escape(title);
        Self(format!(
            "<!doctype html><html lang=en><meta charset=utf-8><meta name=viewport content='width=device-width'>\
             <title>{title}</title><style>{STYLE}</style><h1>{title}</h1>\n"
        ))
    }

    /// Says why what is shown may not be true.
    pub(crate) fn doubt(&mut self, doubt: &str) {
        self.write(format_args!(
            "<p class=doubt>Do not trust this run: {}</p>\n",
            escape(doubt)
        ));
    }

    pub(crate) fn paragraph(&mut self, text: &str) {
        self.write(format_args!("<p>{}</p>\n", escape(text)));
    }

    pub(crate) fn table(
        &mut self,
        title: &str,
        head: &[&str],
        rows: impl Iterator<Item = Vec<String>>,
    ) {
        self.write(format_args!("<h2>{}</h2><table><tr>", escape(title)));
        for name in head {
            self.write(format_args!("<th>{}", escape(name)));
        }
        for row in rows {
            self.write("</tr>\n<tr>");
            for cell in row {
                self.write(format_args!("<td>{}", escape(&cell)));
            }
        }
        self.write("</tr></table>\n");
    }

    pub(crate) fn plot(&mut self, plot: &Plot<'_>) {
        let title = escape(plot.title);
        let points = || plot.lines.iter().flat_map(|(_, points)| points);
        let longest = points().map(|point| point.0).fold(1e-9, f64::max);
        let reached = points()
            .map(|point| point.1)
            .chain(plot.limit)
            .fold(1e-9, f64::max);
        let highest = plot.highest.map_or(reached, |most| most.min(reached));
        let x = |value: f64| LEFT + value / longest * (WIDTH - LEFT - RIGHT);
        let y = |value: f64| {
            TOP + (HEIGHT - TOP - BOTTOM) * (1.0 - value.clamp(0.0, highest) / highest)
        };
        self.write(format_args!(
            "<h2>{title}</h2><svg viewBox='0 0 {WIDTH} {HEIGHT}' role=img aria-label='{title}'>"
        ));
        for value in ticks(highest) {
            let place = y(value);
            self.write(format_args!(
                "<line x1={LEFT} x2={:.0} y1={place:.1} y2={place:.1} stroke='#d8dee4'/>\
                 <text x={:.0} y={:.1} text-anchor=end>{}</text>",
                WIDTH - RIGHT,
                LEFT - 6.0,
                place + 4.0,
                short(value)
            ));
        }
        for value in ticks(longest) {
            self.write(format_args!(
                "<text x={:.1} y={:.0} text-anchor=middle>{}</text>",
                x(value),
                HEIGHT - BOTTOM + 16.0,
                short(value)
            ));
        }
        if let Some(limit) = plot.limit {
            let place = y(limit);
            self.write(format_args!(
                "<line x1={LEFT} x2={:.0} y1={place:.1} y2={place:.1} stroke='#cf222e' stroke-dasharray='6 4'/>",
                WIDTH - RIGHT
            ));
        }
        let mut name_at = LEFT;
        for ((name, points), color) in plot.lines.iter().zip(COLORS.iter().cycle()) {
            let places: Vec<String> = points
                .iter()
                .map(|point| format!("{:.1},{:.1}", x(point.0), y(point.1)))
                .collect();
            self.write(format_args!(
                "<polyline fill=none stroke='{color}' stroke-width=2 points='{}'/>\
                 <text x={name_at:.0} y={:.0} style='fill:{color}'>{}</text>",
                places.join(" "),
                HEIGHT - 8.0,
                escape(name)
            ));
            name_at += 24.0 + 6.5 * name.chars().count() as f64;
        }
        self.write(format_args!(
            "<text x={:.0} y={:.0} text-anchor=end>{}</text></svg>\n",
            WIDTH - RIGHT,
            HEIGHT - 8.0,
            escape(plot.across)
        ));
    }

    pub(crate) fn finish(mut self) -> String {
        self.0.push_str("</html>\n");
        self.0
    }

    fn write(&mut self, what: impl Display) {
        // Writing to a string cannot fail.
        let _ = write!(self.0, "{what}");
    }
}

/// Round values from zero to the highest: three to six of them.
fn ticks(highest: f64) -> impl Iterator<Item = f64> {
    let decade = 10_f64.powf((highest / 2.0).log10().floor());
    let steps = [1.0, 2.0, 5.0].map(|part| part * decade);
    let step = steps.into_iter().find(|step| highest / step <= 5.0);
    let step = step.unwrap_or(10.0 * decade);
    (0..=5)
        .map(move |place| f64::from(place) * step)
        .take_while(move |value| *value <= highest * 1.000_001)
}

/// A number for an axis, without what it does not need.
fn short(value: f64) -> String {
    let text = format!("{value:.4}");
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

fn escape(text: &str) -> String {
    text.replace('&', "&amp;")
        .replace('<', "&lt;")
        .replace('>', "&gt;")
        .replace('\'', "&#39;")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_takes_no_markup_from_what_it_shows() {
        let mut page = Page::new("<script>'x'");
        page.doubt("a < b");
        page.table("t", &["name"], std::iter::once(vec!["<b>".to_owned()]));
        let page = page.finish();
        assert!(page.contains("&lt;script&gt;&#39;x&#39;") && page.contains("<td>&lt;b&gt;"));
        assert!(!page.contains("<script>") && !page.contains("<b>"));
    }

    #[test]
    fn ticks_are_few_and_round_whatever_the_range() {
        let texts = |highest| ticks(highest).map(short).collect::<Vec<_>>().join(" ");
        assert_eq!(texts(1.0), "0 0.2 0.4 0.6 0.8 1");
        assert_eq!(texts(9.03), "0 2 4 6 8");
        assert_eq!(texts(337.5), "0 100 200 300");
        assert_eq!(texts(2_000.0), "0 1000 2000");
        assert_eq!(texts(0.049), "0 0.01 0.02 0.03 0.04");
        for range in 1..10_000 {
            let count = ticks(f64::from(range) / 7.0).count();
            assert!((3..=6).contains(&count), "{range}: {count}");
        }
    }

    #[test]
    fn a_plot_lies_within_its_frame_whatever_it_shows() {
        let mut page = Page::new("p");
        let points = vec![(0.0, 0.0), (50.0, 1e9), (100.0, 3.0)];
        page.plot(&Plot {
            title: "t",
            across: "s",
            lines: vec![("line".into(), points), ("empty".into(), Vec::new())],
            limit: Some(5.0),
            highest: Some(10.0),
        });
        let page = page.finish();
        let places = page.split("points='").nth(1).unwrap();
        let places = places.split('\'').next().unwrap();
        assert_eq!(places, "64.0,212.0 472.0,10.0 880.0,151.4");
    }
}
