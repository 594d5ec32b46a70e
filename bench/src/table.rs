//! Tables in Markdown, and the targets that figures are held against.

use std::fmt;

#[derive(Debug)]
pub(crate) struct Table {
    pub(crate) title: String,
    pub(crate) columns: Vec<&'static str>,
    pub(crate) rows: Vec<Vec<String>>,
    pub(crate) targets: Vec<Target>,
}

/// A figure and its bound.
#[derive(Debug)]
pub(crate) struct Target {
    pub(crate) what: String,
    pub(crate) figure: f64,
    pub(crate) bound: Bound,
    pub(crate) unit: &'static str,
}

#[derive(Debug, Clone, Copy)]
pub(crate) enum Bound {
    AtMost(f64),
    AtLeast(f64),
}

impl Table {
    pub(crate) fn new(title: impl Into<String>, columns: &[&'static str]) -> Table {
        Table {
            title: title.into(),
            columns: columns.to_vec(),
            rows: Vec::new(),
            targets: Vec::new(),
        }
    }

    pub(crate) fn row(&mut self, cells: impl IntoIterator<Item = String>) {
        self.rows.push(cells.into_iter().collect());
    }

    pub(crate) fn at_most(&mut self, what: impl Into<String>, figure: f64, most: f64, unit: &'static str) {
        self.targets.push(Target {
            what: what.into(),
            figure,
            bound: Bound::AtMost(most),
            unit,
        });
    }

    pub(crate) fn at_least(&mut self, what: impl Into<String>, figure: f64, least: f64, unit: &'static str) {
        self.targets.push(Target {
            what: what.into(),
            figure,
            bound: Bound::AtLeast(least),
            unit,
        });
    }
}

impl fmt::Display for Table {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let line = |f: &mut fmt::Formatter<'_>, cells: &[String]| writeln!(f, "| {} |", cells.join(" | "));
        writeln!(f, "### {}\n", self.title)?;
        line(
            f,
            &self.columns.iter().map(ToString::to_string).collect::<Vec<_>>(),
        )?;
        writeln!(f, "|{}", "---|".repeat(self.columns.len()))?;
        self.rows.iter().try_for_each(|row| line(f, row))
    }
}

impl Target {
    pub(crate) fn is_met(&self) -> bool {
        match self.bound {
            Bound::AtMost(most) => self.figure <= most,
            Bound::AtLeast(least) => self.figure >= least,
        }
    }
}

/// All targets in one table.
pub(crate) fn targets<'a>(all: impl Iterator<Item = &'a Target>) -> Table {
    let mut table = Table::new("Targets", &["what", "figure", "target", ""]);
    for target in all {
        let bound = match target.bound {
            Bound::AtMost(most) => format!("≤ {} {}", short(most), target.unit),
            Bound::AtLeast(least) => format!("≥ {} {}", short(least), target.unit),
        };
        let verdict = if target.is_met() { "met" } else { "**missed**" };
        let figure = format!("{} {}", short(target.figure), target.unit);
        table.row([target.what.clone(), figure, bound, verdict.to_owned()]);
    }
    table
}

/// Three significant digits.
pub(crate) fn short(figure: f64) -> String {
    match figure.abs() {
        x if x >= 100.0 => format!("{figure:.0}"),
        x if x >= 10.0 => format!("{figure:.1}"),
        _ => format!("{figure:.2}"),
    }
}

pub(crate) fn median(figures: &mut [f64]) -> f64 {
    figures.sort_by(f64::total_cmp);
    match figures {
        [] => f64::NAN,
        _ if figures.len() % 2 == 1 => figures[figures.len() / 2],
        _ => f64::midpoint(figures[figures.len() / 2 - 1], figures[figures.len() / 2]),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_median_is_the_middle_one_or_between_the_two() {
        assert_eq!(median(&mut [9.0, 1.0, 2.0]), 2.0);
        assert_eq!(median(&mut [4.0, 1.0, 2.0, 9.0]), 3.0);
        assert!(median(&mut []).is_nan());
    }

    #[test]
    fn a_target_is_met_or_missed() {
        let mut table = Table::new("x", &["a"]);
        table.at_most("a", 1.3, 1.3, "x");
        table.at_most("b", 1.31, 1.3, "x");
        table.at_least("c", 2.9, 3.0, "x");
        let met: Vec<bool> = table.targets.iter().map(Target::is_met).collect();
        assert_eq!(met, [true, false, false]);
        let text = targets(table.targets.iter()).to_string();
        assert!(text.contains("| b | 1.31 x | ≤ 1.30 x | **missed** |"), "{text}");
    }
}
