//! Reports as HTML pages: one self-contained file each, with tables and inline plots.

use crate::provenance::Provenance;
use plotters::prelude::*;
use std::error::Error;
use std::fmt::{Display, Write};

/// Light, or dark if the reader prefers it. Wide tables scroll on their own, and each plot has a second version for narrow windows.
const STYLE: &str = ":root{color-scheme:light dark;--back:#fff;--text:#1b1f24;--quiet:#59636e;--line:#d9dee3;--doubt:#fff1e5;--edge:#bc4c00}\
@media(prefers-color-scheme:dark){:root{--back:#0d1117;--text:#e6edf3;--quiet:#9198a1;--line:#30363d;--doubt:#341a04;--edge:#db6d28}\
[stroke='#0969DA']{stroke:#58a6ff}[stroke='#BC4C00']{stroke:#f0883e}[stroke='#1A7F37']{stroke:#3fb950}[stroke='#8250DF']{stroke:#bc8cff}\
[stroke='#CF222E']{stroke:#ff7b72}[stroke='#6E7781']{stroke:#b1bac4}[fill='#0969DA']{fill:#58a6ff}[fill='#BC4C00']{fill:#f0883e}\
[fill='#1A7F37']{fill:#3fb950}[fill='#8250DF']{fill:#bc8cff}[fill='#CF222E']{fill:#ff7b72}[fill='#6E7781']{fill:#b1bac4}}\
body{font:15px/1.5 system-ui,sans-serif;max-width:60rem;margin:2rem auto;padding:0 1rem;background:var(--back);color:var(--text);overflow-wrap:anywhere}\
h1{font-size:1.4rem}h2{font-size:1.05rem;margin-top:2rem}.scroll{overflow-x:auto}\
table{border-collapse:collapse;font-variant-numeric:tabular-nums}td,th{padding:.2rem .9rem .2rem 0;text-align:right;white-space:nowrap}\
td:first-child,th:first-child{text-align:left}tr+tr td{border-top:1px solid var(--line)}\
.doubt{background:var(--doubt);border-left:4px solid var(--edge);padding:.5rem 1rem}\
.made{display:grid;grid-template-columns:auto 1fr;gap:.1rem .9rem;color:var(--quiet);font-size:.85rem}.made dd{margin:0}\
figure{margin:0}svg{width:100%;height:auto}svg text{fill:var(--text)}svg rect[fill='#FFFFFF']{fill:var(--back)}\
.narrow{display:none}@media(max-width:40rem){.wide{display:none}.narrow{display:block}body{margin:1rem auto;padding:0 .7rem}}";

const COLORS: [RGBColor; 6] = [
    RGBColor(9, 105, 218),
    RGBColor(188, 76, 0),
    RGBColor(26, 127, 55),
    RGBColor(130, 80, 223),
    RGBColor(207, 34, 46),
    RGBColor(110, 119, 129),
];
const LIMIT: RGBColor = RGBColor(207, 34, 46);
const GRID: RGBColor = RGBColor(140, 149, 159);
/// Size of plots in wide and in narrow windows, in pixels.
const WIDE: (u32, u32) = (900, 300);
const NARROW: (u32, u32) = (380, 260);

/// A position on the horizontal axis, and the value there, if any.
pub(crate) type Point = (f64, Option<f64>);

/// Height of a plot relative to its highest value, to leave room for the legend.
const HEADROOM: f64 = 1.2;

#[derive(Clone, Debug)]
pub(crate) struct Page(String);

#[derive(Clone, Debug)]
pub(crate) struct Plot<'a> {
    pub(crate) title: &'a str,
    /// Label of the horizontal axis, with its unit.
    pub(crate) across: &'a str,
    /// Label of the vertical axis, with its unit.
    pub(crate) up: &'a str,
    /// Name and points of each line. A point without a value is a gap.
    pub(crate) lines: Vec<(String, Vec<Point>)>,
    /// A limit, drawn as a horizontal line.
    pub(crate) limit: Option<f64>,
    /// Upper end of the vertical axis; higher values are drawn at the edge. `None`: the highest point.
    pub(crate) highest: Option<f64>,
}

impl Page {
    /// Begins a page, with the provenance of its figures.
    pub(crate) fn new(title: &str) -> Self {
        let title = escape(title);
        let mut page = Self(format!(
            "<!doctype html><html lang=en><meta charset=utf-8><meta name=viewport content='width=device-width'>\
             <title>{title}</title><style>{STYLE}</style><h1>{title}</h1>\n"
        ));
        page.provenance(&Provenance::here());
        page
    }

    fn provenance(&mut self, made: &Provenance) {
        self.write("<dl class=made>");
        let version = format!("Tandem {}", made.version);
        for (name, value) in [
            ("made", &made.date),
            ("by", &version),
            ("with", &made.command),
            ("on", &made.machine),
        ] {
            self.write(format_args!("<dt>{name}<dd>{}", escape(value)));
        }
        self.write("</dl>\n");
    }

    /// Adds a reason to distrust the figures.
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
        self.write(format_args!(
            "<h2>{}</h2><div class=scroll><table><tr>",
            escape(title)
        ));
        for name in head {
            self.write(format_args!("<th>{}", escape(name)));
        }
        for row in rows {
            self.write("</tr>\n<tr>");
            for cell in row {
                self.write(format_args!("<td>{}", escape(&cell)));
            }
        }
        self.write("</tr></table></div>\n");
    }

    pub(crate) fn plot(&mut self, plot: &Plot<'_>) {
        let title = escape(plot.title);
        let picture = |size| draw(plot, size).unwrap_or_else(|error| escape(&error.to_string()));
        self.write(format_args!(
            "<h2>{title}</h2><figure role=img aria-label='{title}'><div class=wide>{}</div><div class=narrow>{}</div></figure>\n",
            picture(WIDE),
            picture(NARROW)
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

/// A plot as SVG.
fn draw(plot: &Plot<'_>, size: (u32, u32)) -> Result<String, Box<dyn Error>> {
    let points = || plot.lines.iter().flat_map(|(_, points)| points);
    let longest = points().map(|point| point.0).fold(1e-9, f64::max);
    let values = points().filter_map(|point| point.1).chain(plot.limit);
    let reached = values.fold(1e-9, f64::max);
    let highest = plot.highest.map_or(reached, |most| most.min(reached));
    let mut text = String::new();
    {
        let area = SVGBackend::with_string(&mut text, size).into_drawing_area();
        let mut chart = ChartBuilder::on(&area)
            .margin(8)
            .x_label_area_size(40)
            .y_label_area_size(64)
            .build_cartesian_2d(0.0..longest, 0.0..highest * HEADROOM)?;
        chart
            .configure_mesh()
            .light_line_style(TRANSPARENT)
            .bold_line_style(GRID.mix(0.4))
            .axis_style(GRID)
            .x_labels((size.0 / 90) as usize)
            .x_desc(plot.across)
            .y_desc(plot.up)
            .x_label_formatter(&|value| short(*value))
            .y_label_formatter(&|value| short(*value))
            .draw()?;
        for ((name, points), color) in plot.lines.iter().zip(COLORS.iter().cycle()) {
            let mut label = Some(name);
            for part in parts(points) {
                let part = part.into_iter();
                let part = part.map(|(across, up)| (across, up.clamp(0.0, highest)));
                let part: Vec<(f64, f64)> = part.collect();
                if let [alone] = part[..] {
                    chart.draw_series([Circle::new(alone, 2, color.filled())])?;
                }
                let drawn = chart.draw_series(LineSeries::new(part, color.stroke_width(2)))?;
                if let Some(name) = label.take() {
                    drawn
                        .label(name)
                        .legend(|(x, y)| PathElement::new([(x, y), (x + 16, y)], *color));
                }
            }
        }
        if let Some(limit) = plot.limit {
            let ends = [(0.0, limit), (longest, limit)];
            chart.draw_series(DashedLineSeries::new(ends, 6, 4, LIMIT.into()))?;
        }
        chart
            .configure_series_labels()
            .position(SeriesLabelPosition::UpperLeft)
            .background_style(WHITE.mix(0.8))
            .draw()?;
        area.present()?;
    }
    Ok(text)
}

/// Splits a line at its gaps; a line without values is one empty part.
fn parts(points: &[Point]) -> Vec<Vec<(f64, f64)>> {
    let known = points.split(|point| point.1.is_none());
    let known = known.map(|part| {
        let part = part.iter();
        part.filter_map(|(across, up)| Some((*across, (*up)?)))
            .collect::<Vec<_>>()
    });
    let parts: Vec<_> = known.filter(|part| !part.is_empty()).collect();
    if parts.is_empty() {
        vec![Vec::new()]
    } else {
        parts
    }
}

/// An axis label without trailing zeros.
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
    fn a_plot_lies_within_its_frame_whatever_it_shows() {
        let points = vec![(0.0, Some(0.0)), (50.0, Some(1e9)), (100.0, Some(3.0))];
        let plot = Plot {
            title: "t",
            across: "seconds",
            up: "milliseconds",
            lines: vec![("<line>".into(), points), ("empty".into(), Vec::new())],
            limit: Some(5.0),
            highest: Some(10.0),
        };
        let picture = draw(&plot, WIDE).unwrap();
        assert!(picture.contains("&lt;line&gt;") && picture.contains("\nseconds\n"));
        assert!(picture.contains("\nmilliseconds\n"), "{picture}");
        let line = picture
            .split("<polyline")
            .find(|part| part.contains("stroke-width=\"2\""));
        let places = line
            .and_then(|line| line.split("points=\"").nth(1))
            .unwrap();
        let places = places.split('"').next().unwrap().split_whitespace();
        let places: Vec<(u32, u32)> = places
            .map(|place| place.split_once(',').unwrap())
            .map(|(x, y)| (x.parse().unwrap(), y.parse().unwrap()))
            .collect();
        assert_eq!(places.len(), 3);
        assert!(
            places.iter().all(|(x, y)| *x < WIDE.0 && *y < WIDE.1),
            "{places:?}"
        );
        assert!(
            places[1].1 < places[2].1 && places[2].1 < places[0].1,
            "{places:?}"
        );
    }

    #[test]
    fn nothing_is_a_plot_too() {
        let nothing = Plot {
            title: "t",
            across: "s",
            up: "ms",
            lines: Vec::new(),
            limit: None,
            highest: None,
        };
        assert!(draw(&nothing, NARROW).unwrap().ends_with("</svg>\n"));
    }

    #[test]
    fn what_was_not_measured_is_a_gap() {
        let line = |missing: Option<f64>| {
            let points = vec![
                (0.0, Some(1.0)),
                (1.0, Some(2.0)),
                (2.0, missing),
                (3.0, Some(2.0)),
                (4.0, Some(1.0)),
            ];
            let plot = Plot {
                title: "t",
                across: "s",
                up: "ms",
                lines: vec![("line".into(), points)],
                limit: None,
                highest: None,
            };
            let picture = draw(&plot, WIDE).unwrap();
            // One more is the sample in the legend.
            let drawn = picture
                .matches("stroke=\"#0969DA\" stroke-width=\"2\"")
                .count();
            (drawn, picture.matches("\nline\n").count())
        };
        assert_eq!(line(Some(0.0)), (1, 1));
        assert_eq!(line(None), (2, 1));
    }

    #[test]
    fn a_page_says_where_its_figures_come_from() {
        let page = Page::new("t").finish();
        let made = page.split("<dl class=made>").nth(1).unwrap();
        for what in [
            "<dt>made<dd>20",
            "<dt>by<dd>Tandem ",
            "<dt>with<dd>",
            "<dt>on<dd>",
        ] {
            assert!(made.contains(what), "{what}: {made}");
        }
    }
}
