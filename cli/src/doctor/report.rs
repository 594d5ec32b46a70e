//! What the doctor says.

use std::fmt::Write as _;

use serde::Serialize;
use serde_json::json;

use super::finding::{Finding, Gap, Level};

/// All that was found.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Report {
    /// The function that was looked at.
    pub function: String,
    /// The queue that was looked at.
    pub queue: String,
    /// Where.
    pub region: String,
    /// Each check's result.
    pub findings: Vec<Finding>,
    /// What could not be looked at.
    pub gaps: Vec<Gap>,
}

impl Report {
    /// 1 when a check failed; else 2 when something could not be looked at; else 0.
    pub(crate) fn status(&self) -> u8 {
        if self.count(Level::Fail) > 0 {
            1
        } else if self.gaps.is_empty() {
            0
        } else {
            2
        }
    }

    fn count(&self, level: Level) -> usize {
        self.findings
            .iter()
            .filter(|finding| finding.level == level)
            .count()
    }

    /// One JSON object.
    pub(crate) fn json(&self) -> String {
        json!({
            "function": self.function,
            "queue": self.queue,
            "region": self.region,
            "status": self.status(),
            "findings": self.findings,
            "gaps": self.gaps,
        })
        .to_string()
    }

    /// For people: the worst first, what is right only when `verbose`.
    pub(crate) fn text(&self, verbose: bool) -> String {
        let mut out = format!("{} on {} in {}\n", self.function, self.queue, self.region);
        let mut findings: Vec<_> = self.findings.iter().collect();
        findings.sort_by_key(|finding| std::cmp::Reverse(finding.level));
        for finding in findings {
            // Writing to a string cannot fail.
            if finding.level != Level::Pass {
                let _ = write!(
                    out,
                    "\n{}  {:<22} {}\n      {}\n      $ {}\n",
                    finding.level, finding.check, finding.what, finding.why, finding.fix
                );
            } else if verbose {
                let _ = write!(out, "\n{}  {:<22} {}", finding.level, finding.check, finding.what);
            }
        }
        if verbose {
            out.push('\n');
        }
        for gap in &self.gaps {
            let _ = write!(
                out,
                "\n?     {:<22} {}\n      {}\n",
                gap.permission, gap.resource, gap.reason
            );
        }
        let _ = write!(
            out,
            "\n{} right, {} to think about, {} to mend",
            self.count(Level::Pass),
            self.count(Level::Warn),
            self.count(Level::Fail)
        );
        if !self.gaps.is_empty() {
            let _ = write!(out, ", {} not looked at", self.gaps.len());
        }
        out
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_status_is_the_worst_of_it() {
        let gap = Gap {
            permission: "iam:GetRole",
            resource: "r".to_owned(),
            reason: "you lack iam:GetRole".to_owned(),
        };
        let (pass, warn) = (Finding::pass("a", "x"), Finding::warn("b", "y", "because", "do"));
        let fail = Finding::fail("c", "z", "because", "do that");
        for (findings, gaps, want) in [
            (vec![pass.clone(), warn.clone()], vec![], 0),
            (vec![pass.clone(), warn.clone()], vec![gap.clone()], 2),
            (vec![warn.clone(), fail.clone()], vec![], 1),
            (vec![fail.clone()], vec![gap.clone()], 1),
        ] {
            let report = Report {
                function: "f".to_owned(),
                queue: "q".to_owned(),
                region: "r".to_owned(),
                findings,
                gaps,
            };
            assert_eq!(report.status(), want);
            let json: serde_json::Value = serde_json::from_str(&report.json()).unwrap();
            assert_eq!(json["status"], want);
        }
        let report = Report {
            function: "f".to_owned(),
            queue: "q".to_owned(),
            region: "r".to_owned(),
            findings: vec![pass, warn, fail],
            gaps: vec![gap],
        };
        let text = report.text(false);
        let at = |part: &str| text.find(part).unwrap_or_else(|| panic!("no {part:?} in {text}"));
        assert!(at("FAIL") < at("warn") && at("$ do that") < at("you lack iam:GetRole"));
        assert!(!text.contains("pass") && report.text(true).contains("pass"));
        assert!(text.ends_with("1 right, 1 to think about, 1 to mend, 1 not looked at"));
    }
}
