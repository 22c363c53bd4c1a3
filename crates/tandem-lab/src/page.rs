//! Reports as pages: one file each, with tables and with plots drawn in it.

use plotters::prelude::*;
use std::error::Error;
use std::fmt::{Display, Write};

const STYLE: &str = "body{font:15px/1.5 system-ui,sans-serif;max-width:60rem;margin:2rem auto;padding:0 1rem;color:#1b1f24}\
h1{font-size:1.4rem}h2{font-size:1.05rem;margin-top:2rem}table{border-collapse:collapse;font-variant-numeric:tabular-nums}\
td,th{padding:.2rem .9rem .2rem 0;text-align:right}td:first-child,th:first-child{text-align:left}\
tr+tr td{border-top:1px solid #e3e6ea}.doubt{background:#fff1e5;border-left:4px solid #bc4c00;padding:.5rem 1rem}\
figure{margin:0}svg{width:100%;height:auto}";

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
const SIZE: (u32, u32) = (900, 300);

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
        let picture = draw(plot).unwrap_or_else(|error| escape(&error.to_string()));
        self.write(format_args!(
            "<h2>{title}</h2><figure role=img aria-label='{title}'>{picture}</figure>\n"
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

/// The picture of a plot, as SVG.
fn draw(plot: &Plot<'_>) -> Result<String, Box<dyn Error>> {
    let points = || plot.lines.iter().flat_map(|(_, points)| points);
    let longest = points().map(|point| point.0).fold(1e-9, f64::max);
    let values = points().map(|point| point.1).chain(plot.limit);
    let reached = values.fold(1e-9, f64::max);
    let highest = plot.highest.map_or(reached, |most| most.min(reached));
    let mut text = String::new();
    {
        let area = SVGBackend::with_string(&mut text, SIZE).into_drawing_area();
        let mut chart = ChartBuilder::on(&area)
            .margin(8)
            .x_label_area_size(36)
            .y_label_area_size(56)
            .build_cartesian_2d(0.0..longest, 0.0..highest)?;
        chart
            .configure_mesh()
            .light_line_style(TRANSPARENT)
            .axis_style(GRID)
            .x_desc(plot.across)
            .x_label_formatter(&|value| short(*value))
            .y_label_formatter(&|value| short(*value))
            .draw()?;
        for ((name, points), color) in plot.lines.iter().zip(COLORS.iter().cycle()) {
            let points = points.iter();
            let points = points.map(|(across, up)| (*across, up.clamp(0.0, highest)));
            chart
                .draw_series(LineSeries::new(points, color.stroke_width(2)))?
                .label(name)
                .legend(|(x, y)| PathElement::new([(x, y), (x + 16, y)], *color));
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
    fn a_plot_lies_within_its_frame_whatever_it_shows() {
        let points = vec![(0.0, 0.0), (50.0, 1e9), (100.0, 3.0)];
        let picture = draw(&Plot {
            title: "t",
            across: "seconds",
            lines: vec![("<line>".into(), points), ("empty".into(), Vec::new())],
            limit: Some(5.0),
            highest: Some(10.0),
        });
        let picture = picture.unwrap();
        assert!(picture.contains("&lt;line&gt;") && picture.contains("seconds"));
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
            places.iter().all(|(x, y)| *x < SIZE.0 && *y < SIZE.1),
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
            lines: Vec::new(),
            limit: None,
            highest: None,
        };
        assert!(draw(&nothing).unwrap().ends_with("</svg>\n"));
    }
}
