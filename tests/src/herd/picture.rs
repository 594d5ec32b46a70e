//! Calls and refusals per second, a strip for each mode.

use std::fmt::Write as _;
use std::time::Duration;

use super::Outcome;

const WIDTH: usize = 880;
const LEFT: usize = 40;
const STRIP: usize = 110;
const BARS: usize = 70;

/// One key's calls in each second since the first: served, and refused.
fn seconds(outcome: &Outcome) -> Vec<(u32, u32)> {
    let first = outcome
        .calls
        .iter()
        .map(|call| call.since_start)
        .min()
        .unwrap_or_default();
    let mut all = Vec::new();
    for call in &outcome.calls {
        let second = usize::try_from(call.since_start.saturating_sub(first).as_secs()).unwrap_or(usize::MAX);
        if all.len() <= second {
            all.resize(second + 1, (0, 0));
        }
        let (served, refused) = &mut all[second];
        *(if call.accepted { served } else { refused }) += 1;
    }
    all
}

/// Draws them, all with the same scales. `rate` is the provider's, a line across each strip.
#[must_use]
pub fn draw(outcomes: &[Outcome], rate: f64) -> String {
    let strips: Vec<_> = outcomes.iter().map(seconds).collect();
    let length = strips.iter().map(Vec::len).max().unwrap_or(1).max(1);
    let most = strips
        .iter()
        .flatten()
        .map(|(served, refused)| served + refused)
        .max()
        .unwrap_or(1)
        .max(1);
    let height = STRIP * outcomes.len() + 30;
    let x = |second: usize| LEFT as f64 + (second * (WIDTH - LEFT - 10)) as f64 / length as f64;
    let tall = |calls: f64| calls * BARS as f64 / f64::from(most);
    let bar = x(1) - x(0) - 0.5;
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {height}\" font-family=\"sans-serif\" font-size=\"11\">\n\
         <style>text{{fill:#57606a}}.served{{fill:#2da44e}}.refused{{fill:#cf222e}}line{{stroke:#8c959f;stroke-width:.5}}</style>\n"
    );
    for (index, (outcome, strip)) in outcomes.iter().zip(&strips).enumerate() {
        let base = (index + 1) * STRIP;
        let calls = outcome.calls.len().max(1);
        let share = 100.0 * outcome.refused() as f64 / calls as f64;
        let title = format!(
            "{}: {share:.1} % of {calls} calls refused, {} capped, {:.0} s",
            outcome.mode.name(),
            outcome.capped,
            outcome.took().as_secs_f64()
        );
        // Writing to a String cannot fail.
        let _ = writeln!(
            svg,
            "<text x=\"{LEFT}\" y=\"{}\">{title}</text>",
            base - BARS - 10
        );
        let _ = writeln!(
            svg,
            "<text x=\"4\" y=\"{}\">{most}</text><text x=\"4\" y=\"{base}\">0</text>",
            base - BARS + 8
        );
        for (second, (served, refused)) in strip.iter().enumerate() {
            let mut y = base as f64;
            for (class, calls) in [("served", *served), ("refused", *refused)] {
                let height = tall(f64::from(calls));
                y -= height;
                if calls > 0 {
                    let _ = writeln!(
                        svg,
                        "<rect class=\"{class}\" x=\"{:.1}\" y=\"{y:.1}\" width=\"{bar:.1}\" height=\"{height:.1}\"/>",
                        x(second)
                    );
                }
            }
        }
        let line = base as f64 - tall(rate);
        let _ = writeln!(
            svg,
            "<line x1=\"{LEFT}\" x2=\"{WIDTH}\" y1=\"{line:.1}\" y2=\"{line:.1}\"/>"
        );
        let _ = writeln!(
            svg,
            "<line x1=\"{LEFT}\" x2=\"{WIDTH}\" y1=\"{base}\" y2=\"{base}\"/>"
        );
    }
    for second in (0..length).step_by(20) {
        let _ = writeln!(
            svg,
            "<text x=\"{:.1}\" y=\"{}\">{second} s</text>",
            x(second),
            height - 14
        );
    }
    svg.push_str("</svg>\n");
    svg
}

/// The table for people, in Markdown.
#[must_use]
pub fn table(outcomes: &[Outcome], ideal: Duration) -> String {
    let mut table = format!(
        "| how messages come back | calls | refused | capped | time (ideal {} s) | early |\n|---|---|---|---|---|---|\n",
        ideal.as_secs()
    );
    for outcome in outcomes {
        let _ = writeln!(
            table,
            "| {} | {} | {:.1} % | {} | {:.0} s | {} |",
            outcome.mode.name(),
            outcome.calls.len(),
            100.0 * outcome.refused() as f64 / outcome.calls.len().max(1) as f64,
            outcome.capped,
            outcome.took().as_secs_f64(),
            outcome.early
        );
    }
    table
}
