//! A story as a table.

use std::fmt::Write;

use super::story::{MessageStory, Story, Totals};

const HEADINGS: [&str; 7] = [
    "message",
    "account",
    "put back by",
    "deferrals",
    "asked for",
    "run",
    "late",
];
/// Numbers are set to the right.
const TO_THE_RIGHT: [bool; 7] = [true, false, false, true, true, true, true];

/// One line a message, then the totals. Times are in seconds since the first message was sent.
#[must_use]
pub fn table(story: &Story, totals: &Totals) -> String {
    let rows: Vec<_> = story.messages.iter().map(row).collect();
    let width = |column: usize| {
        let cells = rows.iter().map(|row| row[column].chars().count());
        cells.chain([HEADINGS[column].len()]).max().unwrap_or_default()
    };
    let widths: [usize; 7] = std::array::from_fn(width);
    let mut text = String::new();
    line(&mut text, &HEADINGS.map(str::to_owned), &widths);
    line(&mut text, &widths.map(|width| "-".repeat(width)), &widths);
    for row in &rows {
        line(&mut text, row, &widths);
    }
    let Totals {
        done,
        lost,
        early,
        repeated,
        calls,
        refused,
    } = totals;
    let _ = write!(text, "\ndone {done}, lost {lost}, run early {early}");
    if *repeated > 0 {
        let _ = write!(text, ", done more than once {repeated}");
    }
    let _ = writeln!(text, "; provider calls {calls}, of which refused {refused}");
    text
}

fn row(message: &MessageStory) -> [String; 7] {
    let tiers: Vec<_> = message.tiers().collect();
    let (asked_for, run) = (message.asked_for(), message.done());
    let late = asked_for.zip(run).map(|(asked_for, run)| run - asked_for);
    let seconds = |seconds: Option<f64>| seconds.map_or("-".to_owned(), |seconds| format!("{seconds:.1} s"));
    [
        message.id.to_string(),
        message.account.clone(),
        names(
            &tiers
                .iter()
                .map(|tier| tier.map_or("?", |tier| tier.name()))
                .collect::<Vec<_>>(),
        ),
        tiers.len().to_string(),
        seconds(asked_for),
        match (run, message.dead, message.early()) {
            (None, _, _) | (_, true, _) => "LOST".to_owned(),
            (Some(_), _, true) => format!("{} EARLY", seconds(run)),
            (Some(_), _, false) => seconds(run),
        },
        seconds(late),
    ]
}

/// Equal ones in a row once, with their number.
fn names(tiers: &[&str]) -> String {
    let runs = tiers.chunk_by(|one, next| one == next).map(|run| match run {
        [one] => (*one).to_owned(),
        many => format!("{} x{}", many[0], many.len()),
    });
    let names: Vec<_> = runs.collect();
    if names.is_empty() {
        "-".to_owned()
    } else {
        names.join(", ")
    }
}

fn line(text: &mut String, cells: &[String; 7], widths: &[usize; 7]) {
    let mut line = String::new();
    for ((cell, &width), to_the_right) in cells.iter().zip(widths).zip(TO_THE_RIGHT) {
        let _ = if to_the_right {
            write!(line, "{cell:>width$}  ")
        } else {
            write!(line, "{cell:<width$}  ")
        };
    }
    text.push_str(line.trim_end());
    text.push('\n');
}

#[cfg(test)]
mod tests {
    use super::super::story::{Outcome, Step, Tier};
    use super::*;

    fn message(id: u32, steps: &[(f64, Option<(f64, Tier)>)]) -> MessageStory {
        let step = |&(at, limited): &(f64, Option<(f64, Tier)>)| Step {
            at,
            outcome: match limited {
                Some((until, tier)) => Outcome::Limited {
                    until,
                    tier: Some(tier),
                },
                None => Outcome::Done,
            },
        };
        let steps = steps.iter().map(step).collect();
        MessageStory {
            id,
            account: "burst".to_owned(),
            sent: 0.0,
            steps,
            dead: false,
        }
    }

    #[test]
    fn a_line_a_message_and_the_totals() {
        let delay = |until| Some((until, Tier::Delay));
        let messages = vec![
            message(1, &[(0.5, None)]),
            message(12, &[(0.5, delay(10.0)), (10.2, delay(20.0)), (20.25, None)]),
            message(13, &[(0.5, Some((73.0, Tier::Schedule))), (72.0, None)]),
            message(14, &[(0.5, delay(10.0))]),
        ];
        let story = Story {
            messages,
            closed: vec![],
        };
        let expected = "\
message  account  put back by  deferrals  asked for           run    late
-------  -------  -----------  ---------  ---------  ------------  ------
      1  burst    -                    0          -         0.5 s       -
     12  burst    delay x2             2     20.0 s        20.2 s   0.2 s
     13  burst    schedule             1     73.0 s  72.0 s EARLY  -1.0 s
     14  burst    delay                1     10.0 s          LOST       -

done 3, lost 1, run early 1; provider calls 7, of which refused 4
";
        assert_eq!(table(&story, &Totals::of(&story)), expected);
    }
}
