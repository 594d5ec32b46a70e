//! A story as a picture: time goes to the right, one line a message.
//!
//! The picture brings its own background and follows the reader's light or dark theme. Colours are told apart also by
//! people who see few of them, and each account's caption says in words what its colour means.

use std::fmt::Write;

use super::cast::{ACCOUNTS, Account};
use super::story::{MessageStory, Outcome, Story, Tier, Totals};

const WIDTH: f64 = 880.0;
const LEFT: f64 = 44.0;
const RIGHT: f64 = 24.0;
const TOP: f64 = 66.0;
const ROW: f64 = 15.0;
const CAPTION: f64 = 30.0;
const BOTTOM: f64 = 52.0;

// The legend: a mark, its text, the gap to the next. The widest font that is likely has letters this wide.
const MARK: f64 = 20.0;
const LETTER: f64 = 7.0;
const GAP: f64 = 14.0;

const STYLE: &str = "\
text{font:12px system-ui,-apple-system,'Segoe UI',Helvetica,Arial,sans-serif;fill:#1f2328}
.card{fill:#fff;stroke:#d1d9e0}.title{font-size:15px;font-weight:600}.bold{font-weight:600}.soft{fill:#59636e}
.number{fill:#59636e;font-size:10px;text-anchor:end}.tick{fill:#59636e;text-anchor:middle}
.grid{stroke:#eaeef2}.closed{fill:#cf222e;fill-opacity:.12}
.line{stroke-width:4;fill:none}.queue{stroke:#8c959f;stroke-width:2}
.delay{stroke:#0969da}.schedule{stroke:#d4730f}.visibility{stroke:#8250df}.unknown{stroke:#8c959f}
.limited{fill:#fff;stroke:#1f2328;stroke-width:1.5}.told{stroke:#1f2328;stroke-width:1.5}
.done{fill:#1a7f37}.lost{stroke:#cf222e;stroke-width:2.5}
@media(prefers-color-scheme:dark){
text{fill:#e6edf3}.card{fill:#0d1117;stroke:#30363d}.soft,.number,.tick{fill:#9198a1}
.grid{stroke:#21262d}.closed{fill:#f85149;fill-opacity:.18}
.queue,.unknown{stroke:#7d8590}.delay{stroke:#4493f8}.schedule{stroke:#e3953d}.visibility{stroke:#ab7df8}
.limited{fill:#0d1117;stroke:#e6edf3}.told{stroke:#e6edf3}.done{fill:#3fb950}.lost{stroke:#f85149}}";

/// Draws a story.
#[must_use]
pub fn picture(story: &Story) -> String {
    let groups: Vec<_> = ACCOUNTS
        .iter()
        .map(|account| (account, messages_of(story, account)))
        .filter(|(_, messages)| !messages.is_empty())
        .collect();
    let rows: f64 = groups
        .iter()
        .map(|(_, messages)| CAPTION + ROW * count(messages))
        .sum();
    let height = TOP + rows + BOTTOM;
    let scale = Scale::new(story.length());

    let mut out = String::new();
    let description = headline(&Totals::of(story), story.messages.len());
    let _ = writeln!(
        out,
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {height}\" width=\"{WIDTH}\" \
         height=\"{height}\" role=\"img\" aria-label=\"{description}\">\n<title>{description}</title>\n\
         <style>{STYLE}</style>\n<rect class=\"card\" x=\".5\" y=\".5\" width=\"{}\" height=\"{}\" rx=\"6\"/>",
        WIDTH - 1.0,
        height - 1.0,
    );
    let _ = writeln!(
        out,
        "<text class=\"title\" x=\"16\" y=\"27\">{description}</text>"
    );
    legend(&mut out);
    axis(&mut out, &scale, TOP + 6.0, height - BOTTOM + 6.0);
    let mut top = TOP;
    for (account, messages) in &groups {
        group(&mut out, &scale, story, account, messages, top);
        top += CAPTION + ROW * count(messages);
    }
    out.push_str("</svg>\n");
    out
}

fn headline(totals: &Totals, sent: usize) -> String {
    let Totals {
        done, lost, early, ..
    } = totals;
    format!("{sent} messages to a rate-limited API: {done} done, {lost} lost, {early} run early")
}

fn messages_of<'a>(story: &'a Story, account: &Account) -> Vec<&'a MessageStory> {
    story
        .messages
        .iter()
        .filter(|message| message.account == account.name)
        .collect()
}

fn count(messages: &[&MessageStory]) -> f64 {
    f64::from(u16::try_from(messages.len()).unwrap_or(u16::MAX))
}

/// Seconds to horizontal positions.
struct Scale {
    seconds: f64,
    tick: u32,
}

impl Scale {
    fn new(length: f64) -> Self {
        let tick = if length > 150.0 { 20 } else { 10 };
        let seconds = ((length + 2.0) / f64::from(tick)).ceil() * f64::from(tick);
        Self {
            seconds: seconds.max(f64::from(tick)),
            tick,
        }
    }

    fn x(&self, seconds: f64) -> f64 {
        LEFT + (WIDTH - LEFT - RIGHT) * seconds.clamp(0.0, self.seconds) / self.seconds
    }

    fn ticks(&self) -> impl Iterator<Item = u32> {
        (0..)
            .map(|index| index * self.tick)
            .take_while(|&tick| f64::from(tick) <= self.seconds)
    }
}

fn legend(out: &mut String) {
    let entries = [
        (line("queue", 0.0, MARK, 0.0), "queued"),
        (circle("limited", MARK / 2.0, 0.0, 3.5), "limited: 429"),
        (line("delay", 0.0, MARK, 0.0), "delay"),
        (line("schedule", 0.0, MARK, 0.0), "schedule"),
        (line("visibility", 0.0, MARK, 0.0), "visibility"),
        (told(MARK / 2.0, 0.0), "time the API gave"),
        (circle("done", MARK / 2.0, 0.0, 4.0), "done"),
        (
            format!("<rect class=\"closed\" y=\"-7\" width=\"{MARK}\" height=\"14\"/>"),
            "API closed",
        ),
    ];
    let mut x = 16.0;
    for (mark, text) in entries {
        let _ = writeln!(
            out,
            "<g transform=\"translate({x} 52)\">{mark}<text class=\"soft\" x=\"{}\" y=\"4\">{text}</text></g>",
            MARK + 6.0
        );
        let letters = f64::from(u16::try_from(text.len()).unwrap_or(u16::MAX));
        x = round(x + MARK + 6.0 + LETTER * letters + GAP);
    }
}

fn axis(out: &mut String, scale: &Scale, top: f64, bottom: f64) {
    for tick in scale.ticks() {
        let x = round(scale.x(f64::from(tick)));
        let _ = writeln!(
            out,
            "<path class=\"grid\" d=\"M{x} {top}V{bottom}\"/><text class=\"tick\" x=\"{x}\" y=\"{}\">{tick}</text>",
            bottom + 16.0
        );
    }
    let middle = (LEFT + WIDTH - RIGHT) / 2.0;
    let _ = writeln!(
        out,
        "<text class=\"tick\" x=\"{middle}\" y=\"{}\">seconds after the messages were sent</text>",
        bottom + 34.0
    );
}

fn group(
    out: &mut String,
    scale: &Scale,
    story: &Story,
    account: &Account,
    messages: &[&MessageStory],
    top: f64,
) {
    let _ = writeln!(
        out,
        "<text x=\"16\" y=\"{}\"><tspan class=\"bold\">{}</tspan><tspan class=\"soft\" dx=\"8\">{}</tspan></text>",
        top + 20.0,
        account.name,
        account.caption
    );
    let rows = top + CAPTION;
    let closed = story.closed.iter().filter(|shade| shade.account == account.name);
    for shade in closed {
        let (from, until) = (scale.x(shade.from), scale.x(shade.until));
        let _ = writeln!(
            out,
            "<rect class=\"closed\" x=\"{}\" y=\"{rows}\" width=\"{}\" height=\"{}\"/>",
            round(from),
            round(until - from),
            ROW * count(messages)
        );
    }
    let mut y = rows + ROW / 2.0;
    for message in messages {
        row(out, scale, message, y);
        y += ROW;
    }
}

fn row(out: &mut String, scale: &Scale, message: &MessageStory, y: f64) {
    let _ = write!(
        out,
        "<text class=\"number\" x=\"{}\" y=\"{}\">{}</text>",
        LEFT - 8.0,
        y + 3.5,
        message.id
    );
    let (mut x, mut class) = (scale.x(message.sent), "queue");
    let mut marks = String::new();
    for step in &message.steps {
        let here = scale.x(step.at);
        out.push_str(&line(class, x, here, y));
        x = here;
        match step.outcome {
            Outcome::Done => marks.push_str(&circle("done", x, y, 4.0)),
            Outcome::Limited { until, tier } => {
                class = tier.map_or("unknown", Tier::name);
                marks.push_str(&told(scale.x(until), y));
                marks.push_str(&circle("limited", x, y, 3.5));
            }
        }
    }
    if message.done().is_none() || message.dead {
        let end = scale.x(scale.seconds);
        if message.done().is_none() {
            out.push_str(&line(class, x, end, y));
        }
        let _ = write!(
            marks,
            "<path class=\"lost\" d=\"M{} {}l8 8m0-8l-8 8\"/>",
            round(end - 4.0),
            y - 4.0
        );
    }
    out.push_str(&marks);
    out.push('\n');
}

fn line(class: &str, from: f64, to: f64, y: f64) -> String {
    format!(
        "<path class=\"line {class}\" d=\"M{} {y}H{}\"/>",
        round(from),
        round(to)
    )
}

fn circle(class: &str, x: f64, y: f64, radius: f64) -> String {
    format!(
        "<circle class=\"{class}\" cx=\"{}\" cy=\"{y}\" r=\"{radius}\"/>",
        round(x)
    )
}

/// The tick at the time that the provider gave.
fn told(x: f64, y: f64) -> String {
    format!("<path class=\"told\" d=\"M{} {}v9\"/>", round(x), y - 4.5)
}

/// A tenth of a pixel is enough, and keeps the file small.
fn round(value: f64) -> f64 {
    (value * 10.0).round() / 10.0
}

#[cfg(test)]
mod tests {
    use super::super::story::{Shade, Step};
    use super::*;

    fn story() -> Story {
        let limited = |at, until, tier| Step {
            at,
            outcome: Outcome::Limited {
                until,
                tier: Some(tier),
            },
        };
        let done = |at| Step {
            at,
            outcome: Outcome::Done,
        };
        let message = |id, account: &str, steps| MessageStory {
            id,
            account: account.to_owned(),
            sent: 0.0,
            steps,
            dead: false,
        };
        Story {
            messages: vec![
                message(1, "burst", vec![done(0.5)]),
                message(2, "burst", vec![limited(0.5, 10.0, Tier::Delay), done(11.0)]),
                message(15, "daily", vec![limited(0.5, 72.5, Tier::Schedule), done(78.0)]),
                message(23, "daily-plain", vec![limited(0.5, 72.5, Tier::Visibility)]),
            ],
            closed: vec![Shade {
                account: "daily".to_owned(),
                from: 0.5,
                until: 72.5,
            }],
        }
    }

    #[test]
    fn every_message_has_its_line_in_its_tiers_colour() {
        let picture = picture(&story());
        let of = |class: &str| picture.matches(&format!("\"line {class}\"")).count();
        // One of each is the legend's.
        assert_eq!(
            (of("queue"), of("delay"), of("schedule"), of("visibility")),
            (5, 2, 2, 2)
        );
        assert_eq!(picture.matches("class=\"done\"").count(), 3 + 1);
        assert_eq!(
            picture.matches("class=\"lost\"").count(),
            1,
            "message 23 never ran"
        );
        assert_eq!(picture.matches("class=\"closed\"").count(), 1 + 1);
        assert!(picture.contains("4 messages to a rate-limited API: 3 done, 1 lost, 0 run early"));
    }

    #[test]
    fn the_axis_holds_the_whole_story() {
        let scale = Scale::new(78.0);
        assert_eq!(
            (scale.seconds, scale.x(0.0), scale.x(80.0)),
            (80.0, LEFT, WIDTH - RIGHT)
        );
        assert_eq!(
            scale.ticks().collect::<Vec<_>>(),
            [0, 10, 20, 30, 40, 50, 60, 70, 80]
        );
        assert_eq!(Scale::new(0.0).seconds, 10.0);
    }

    #[test]
    fn an_empty_story_is_a_picture_too() {
        assert!(picture(&Story::default()).ends_with("</svg>\n"));
    }
}
