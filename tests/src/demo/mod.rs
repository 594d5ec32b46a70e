//! The demo: thirty messages for three accounts of a rate-limited CRM, two Lambda functions, all three tiers.
//!
//! - [`cast`]: who sends what to whom.
//! - `stage`: the emulator, the stacks and the provider that it is played on.
//! - `play`: sends, watches, and collects what happened.
//! - [`progress`]: the line that shows it while it runs.
//! - [`story`]: what happened to each message, from the provider's record and the functions' logs.
//! - [`report`] and [`svg`]: the table and the picture of a story.

pub mod cast;
mod play;
pub mod progress;
pub mod report;
mod stage;
pub mod story;
pub mod svg;

use std::io::{IsTerminal, Write};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

use play::play;
use progress::Progress;
use stage::Stage;
use story::Totals;

/// What the demo is run with.
#[derive(Clone, Debug)]
pub struct DemoOptions {
    /// The worker's program, deployed as the functions' bootstrap.
    pub bootstrap: PathBuf,
    /// Where the picture goes.
    pub svg: PathBuf,
}

/// Plays the demo, prints the table, writes the picture. True when nothing was lost and nothing ran early.
///
/// # Errors
///
/// When the stage cannot be set, or the picture not be written.
pub async fn run(options: &DemoOptions, out: &mut (impl Write + IsTerminal)) -> Result<bool> {
    let mut progress = Progress::new(out.is_terminal());
    progress.note(
        out,
        "starting local AWS and the provider; deploying the stack twice, with and without the scheduler",
    )?;
    let stage = Stage::set(&options.bootstrap).await?;
    let story = play(&stage, &mut progress, out).await;
    stage.clear().await?;
    let story = story?;
    progress.end(out)?;
    let totals = Totals::of(&story);
    write!(out, "{}", report::table(&story, &totals))?;
    write_svg(&options.svg, &svg::picture(&story))?;
    writeln!(out, "\npicture: {}", options.svg.display())?;
    Ok(totals.all_is_well())
}

fn write_svg(path: &Path, picture: &str) -> Result<()> {
    if let Some(folder) = path.parent() {
        std::fs::create_dir_all(folder).with_context(|| format!("failed to make {}", folder.display()))?;
    }
    std::fs::write(path, picture).with_context(|| format!("failed to write {}", path.display()))
}
