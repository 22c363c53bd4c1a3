//! Draws a scenario: calls per second over time.

use super::read::{Line, Reader, Unreadable};
use plotters::prelude::*;
use std::fmt;
use std::io::BufRead;

const SIZE: (u32, u32) = (1_000, 420);
/// Points of a curve. During reading there may be twice as many.
const POINTS: usize = 500;
/// Target number of calls per point; shorter scenarios have fewer points.
const CALLS: u64 = 20;
const FEWEST: usize = 60;
const MADE: RGBColor = RGBColor(9, 105, 218);
const SAID: RGBColor = RGBColor(188, 76, 0);

/// Why there is no plot.
#[derive(Debug)]
pub enum Unplottable {
    /// A line cannot be read.
    Reading(Unreadable),
    /// The file has no calls.
    NoCall,
    /// Drawing failed.
    Drawing(String),
}

impl fmt::Display for Unplottable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Reading(unreadable) => unreadable.fmt(f),
            Self::NoCall => f.write_str("1: no calls follow the header"),
            Self::Drawing(why) => write!(f, "1: cannot draw the plot: {why}"),
        }
    }
}

impl std::error::Error for Unplottable {}

/// Draws a scenario as SVG. Holds one line and the points of the curves.
///
/// # Errors
/// The first unreadable line, or a file without calls.
pub fn plot<R: BufRead>(reader: Reader<R>, title: &str) -> Result<String, Unplottable> {
    let mut curve = Curve::default();
    for line in reader {
        let Line { call, .. } = line.map_err(Unplottable::Reading)?;
        curve.add(call.rate, u64::from(call.wait_ms));
    }
    if curve.calls == 0 {
        return Err(Unplottable::NoCall);
    }
    curve.finish();
    draw(&curve, title).map_err(|error| Unplottable::Drawing(error.to_string()))
}

/// Calls and rates over time, in points of equal length. The length grows with the scenario.
#[derive(Debug)]
struct Curve {
    length_ms: u64,
    points: Vec<Point>,
    calls: u64,
    end_ms: u64,
}

#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Point {
    calls: u64,
    /// Sum over all calls.
    rates: f64,
}

impl Default for Curve {
    fn default() -> Self {
        Self {
            length_ms: 1_000,
            points: Vec::with_capacity(2 * POINTS),
            calls: 0,
            end_ms: 0,
        }
    }
}

impl Curve {
    fn add(&mut self, rate: f64, wait_ms: u64) {
        let place = loop {
            let place = (self.end_ms / self.length_ms) as usize;
            if place < 2 * POINTS {
                break place;
            }
            self.halve();
        };
        if self.points.len() <= place {
            self.points.resize(place + 1, Point::default());
        }
        if let Some(point) = self.points.get_mut(place) {
            point.calls += 1;
            point.rates += rate;
        }
        self.calls += 1;
        self.end_ms += wait_ms;
    }

    /// Merges pairs of points.
    fn halve(&mut self) {
        let pairs = self.points.chunks(2).map(|pair| Point {
            calls: pair.iter().map(|point| point.calls).sum(),
            rates: pair.iter().map(|point| point.rates).sum(),
        });
        self.points = pairs.collect();
        self.length_ms *= 2;
    }

    fn finish(&mut self) {
        let is_thin = |curve: &Self| {
            let points = curve.points.len();
            points > FEWEST && curve.calls / (points as u64) < CALLS
        };
        while self.points.len() > POINTS || is_thin(self) {
            self.halve();
        }
    }

    fn begin(&self, place: usize) -> f64 {
        (place as u64 * self.length_ms) as f64 / 1e3
    }

    /// Actual calls per second, as the corners of a step curve.
    fn made(&self) -> Vec<(f64, f64)> {
        let end = self.end_ms as f64 / 1e3;
        let stairs = self.points.iter().enumerate().flat_map(|(place, point)| {
            let (from, until) = (self.begin(place), self.begin(place + 1).min(end));
            let rate = point.calls as f64 / (until - from).max(1e-3);
            [(from, rate), (until.max(from), rate)]
        });
        stairs.collect()
    }

    /// Calls per second according to the lines.
    fn said(&self) -> Vec<(f64, f64)> {
        let points = self.points.iter().enumerate();
        let points = points.filter(|(_, point)| point.calls > 0);
        let half = self.length_ms as f64 / 2e3;
        points
            .map(|(place, point)| (self.begin(place) + half, point.rates / point.calls as f64))
            .collect()
    }
}

fn draw(curve: &Curve, title: &str) -> Result<String, Box<dyn std::error::Error>> {
    let (made, said) = (curve.made(), curve.said());
    let rates = made.iter().chain(&said).map(|(_, rate)| *rate);
    let highest = rates.fold(0.0, f64::max) * 1.05;
    let seconds = (curve.end_ms as f64 / 1e3).max(1.0);
    // A readable unit: hours for a long scenario, seconds for a short one.
    let (unit, length) = match seconds {
        ..600.0 => ("s", 1.0),
        ..14_400.0 => ("min", 60.0),
        _ => ("h", 3_600.0),
    };
    let scaled = |points: Vec<(f64, f64)>| {
        let points = points.into_iter();
        points.map(move |(time, rate)| (time / length, rate))
    };
    let mut text = String::new();
    {
        let area = SVGBackend::with_string(&mut text, SIZE).into_drawing_area();
        area.fill(&WHITE)?;
        let caption = format!("{title}: {} calls in {seconds:.0} s", curve.calls);
        let mut chart = ChartBuilder::on(&area)
            .caption(caption, ("sans-serif", 18))
            .margin(12)
            .x_label_area_size(36)
            .y_label_area_size(56)
            .build_cartesian_2d(0.0..seconds / length, 0.0..highest)?;
        chart
            .configure_mesh()
            .light_line_style(TRANSPARENT)
            .x_desc(format!("time, {unit}"))
            .y_desc("calls per second")
            .draw()?;
        chart
            .draw_series(AreaSeries::new(scaled(made), 0.0, MADE.mix(0.25)).border_style(MADE))?
            .label("made")
            .legend(|(x, y)| PathElement::new([(x, y), (x + 16, y)], MADE));
        chart
            .draw_series(LineSeries::new(scaled(said), SAID))?
            .label("arrival_rate_in_s")
            .legend(|(x, y)| PathElement::new([(x, y), (x + 16, y)], SAID));
        chart
            .configure_series_labels()
            .position(SeriesLabelPosition::UpperLeft)
            .background_style(WHITE.mix(0.8))
            .draw()?;
        area.present()?;
    }
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::super::{HEADER, read};
    use super::*;

    fn curve(calls: u32, wait_ms: u64, rate: f64) -> Curve {
        let mut curve = Curve::default();
        for _ in 0..calls {
            curve.add(rate, wait_ms);
        }
        curve
    }

    #[test]
    fn points_hold_all_calls_however_long_the_scenario_is() {
        let mut curve = curve(1_000_000, 100, 10.0);
        assert!(curve.points.len() <= 2 * POINTS);
        curve.finish();
        assert!((FEWEST..=POINTS).contains(&curve.points.len()));
        assert_eq!(
            curve.points.iter().map(|point| point.calls).sum::<u64>(),
            1_000_000
        );
        for (_, rate) in curve.made() {
            assert!((rate - 10.0).abs() < 0.05, "{rate}");
        }
        assert!(
            curve
                .said()
                .iter()
                .all(|(_, rate)| (rate - 10.0).abs() < 1e-6)
        );
    }

    #[test]
    fn a_pause_is_seen() {
        let mut curve = curve(100, 100, 10.0);
        curve.add(0.1, 10_000);
        curve.add(10.0, 100);
        curve.finish();
        assert!(curve.made().contains(&(15.0, 0.0)));
    }

    #[test]
    fn the_picture_is_well_formed_and_says_what_it_shows() {
        let lines = (0..120).map(|second| format!("0400;0500;1000;{second};1\n"));
        let text = format!("{HEADER}\n{}", lines.collect::<String>());
        let svg = plot(read(text.as_bytes()), "a <b>").unwrap();
        assert!(svg.starts_with("<svg") && svg.trim_end().ends_with("</svg>"));
        for part in [
            "a &lt;b&gt;: 120 calls in 120 s",
            "time, s",
            "calls per second",
            "made",
        ] {
            assert!(svg.contains(part), "{part} in {svg}");
        }
    }

    #[test]
    fn a_file_that_cannot_be_read_is_not_drawn() {
        let failure = |text: &str| plot(read(text.as_bytes()), "x").unwrap_err().to_string();
        assert!(failure(HEADER).contains("no call"));
        assert!(failure(&format!("{HEADER}\n1;2;3\n")).starts_with("2: 3 fields"));
    }
}
