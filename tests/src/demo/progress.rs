//! What is shown while the demo runs: one line that changes on a terminal, a line every few seconds elsewhere.

use std::io::Write;
use std::time::Duration;

use anyhow::Result;

/// Elsewhere than on a terminal.
const BETWEEN_LINES: Duration = Duration::from_secs(5);
const BAR: usize = 10;

/// The counts at one moment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Moment {
    /// Since the messages were sent.
    pub elapsed: Duration,
    /// Messages sent.
    pub sent: usize,
    /// Messages done.
    pub done: usize,
    /// Calls that the provider got.
    pub calls: usize,
    /// Calls that it refused.
    pub refused: usize,
    /// Deferrals so far by delay, schedule and visibility.
    pub deferrals: [usize; 3],
}

impl Moment {
    fn line(&self) -> String {
        let seconds = self.elapsed.as_secs();
        let filled = (BAR * self.done).checked_div(self.sent).unwrap_or_default();
        let [delay, schedule, visibility] = self.deferrals;
        format!(
            "{}:{:02} [{}{}] {}/{} done | {delay} delayed, {schedule} scheduled, {visibility} hidden | \
             {} calls, {} refused",
            seconds / 60,
            seconds % 60,
            "#".repeat(filled),
            ".".repeat(BAR - filled),
            self.done,
            self.sent,
            self.calls,
            self.refused,
        )
    }
}

/// Writes moments as they come.
#[derive(Debug)]
pub struct Progress {
    terminal: bool,
    last: Option<Moment>,
}

impl Progress {
    /// For a terminal, or for a file.
    #[must_use]
    pub fn new(terminal: bool) -> Self {
        Self { terminal, last: None }
    }

    /// A line about what is going on.
    ///
    /// # Errors
    ///
    /// When it cannot be written.
    pub fn note(&self, out: &mut impl Write, text: &str) -> Result<()> {
        writeln!(out, "{text}")?;
        Ok(out.flush()?)
    }

    /// Shows a moment, if it is time for it.
    ///
    /// # Errors
    ///
    /// When it cannot be written.
    pub fn show(&mut self, out: &mut impl Write, moment: &Moment) -> Result<()> {
        if self.terminal {
            // From the line's beginning, what is left of a longer one before cleared. A terminal that is too narrow
            // cuts it: a line that wraps could not be written over.
            write!(out, "\r\x1b[?7l{}\x1b[K\x1b[?7h", moment.line())?;
        } else if self
            .last
            .is_none_or(|last| moment.elapsed >= last.elapsed + BETWEEN_LINES)
        {
            writeln!(out, "{}", moment.line())?;
        } else {
            return Ok(());
        }
        self.last = Some(*moment);
        Ok(out.flush()?)
    }

    /// Leaves the line that changes.
    ///
    /// # Errors
    ///
    /// When it cannot be written.
    pub fn end(&self, out: &mut impl Write) -> Result<()> {
        if self.terminal && self.last.is_some() {
            writeln!(out)?;
        }
        Ok(writeln!(out)?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(terminal: bool, at_milliseconds: &[u64]) -> String {
        let (mut progress, mut out) = (Progress::new(terminal), Vec::new());
        for &milliseconds in at_milliseconds {
            let elapsed = Duration::from_millis(milliseconds);
            let moment = Moment {
                elapsed,
                sent: 30,
                done: 15,
                calls: 50,
                refused: 35,
                deferrals: [20, 8, 7],
            };
            progress.show(&mut out, &moment).unwrap();
        }
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn a_file_gets_a_line_every_few_seconds() {
        let text = shown(false, &[0, 250, 4_999, 5_000, 65_500]);
        let times: Vec<_> = text.lines().map(|line| &line[..4]).collect();
        assert_eq!(times, ["0:00", "0:05", "1:05"]);
        let line = text.lines().next().unwrap();
        let expected =
            "0:00 [#####.....] 15/30 done | 20 delayed, 8 scheduled, 7 hidden | 50 calls, 35 refused";
        assert_eq!(line, expected);
    }

    #[test]
    fn a_terminal_gets_one_line_that_changes() {
        let text = shown(true, &[0, 250]);
        assert_eq!((text.matches('\r').count(), text.matches('\n').count()), (2, 0));
    }
}
