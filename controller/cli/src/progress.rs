//! Line on a terminal that shows how far long work is, and how long it will take.

use std::io::{self, Write};
use std::time::{Duration, Instant};

/// Time after which the line appears. Shorter work needs none.
const DELAY: Duration = Duration::from_secs(1);
/// Time between two versions of the line, so that a terminal does not slow down the work.
const INTERVAL: Duration = Duration::from_millis(200);
/// Sequence that deletes the line of the cursor (ECMA-48, sections 8.3.41 and 8.3.26).
const CLEAR: &str = "\r\u{1b}[2K";

/// Progress of work whose steps take about the same time.
#[derive(Debug, Default)]
pub(super) struct Progress {
    /// `true` if standard error is a terminal.
    pub(super) is_shown: bool,
    work: Option<Work>,
    /// Time of the version on the terminal. `None`: there is none.
    shown: Option<Instant>,
}

#[derive(Debug)]
struct Work {
    verb: &'static str,
    noun: &'static str,
    steps: usize,
    done: usize,
    begin: Instant,
}

impl Progress {
    pub(super) fn begin(&mut self, verb: &'static str, noun: &'static str, steps: usize) {
        self.work = Some(Work { verb, noun, steps, done: 0, begin: Instant::now() });
    }

    /// Counts a step, and writes the line from time to time.
    pub(super) fn step(&mut self, errors: &mut dyn Write) -> io::Result<()> {
        let Some(work) = &mut self.work else {
            return Ok(());
        };
        work.done += 1;
        let taken = work.begin.elapsed();
        let is_due = self.shown.is_none_or(|shown| shown.elapsed() >= INTERVAL);
        if !self.is_shown || taken < DELAY || !is_due {
            return Ok(());
        }
        self.shown = Some(Instant::now());
        write!(errors, "{CLEAR}{}", work.text(taken))?;
        errors.flush()
    }

    /// Deletes the line before other text. It comes back with a later step.
    pub(super) fn clear(&mut self, errors: &mut dyn Write) -> io::Result<()> {
        match self.shown.take() {
            Some(_) => write!(errors, "{CLEAR}"),
            None => Ok(()),
        }
    }

    pub(super) fn end(&mut self, errors: &mut dyn Write) -> io::Result<()> {
        self.work = None;
        self.clear(errors)
    }
}

impl Work {
    fn text(&self, taken: Duration) -> String {
        let Self { verb, noun, steps, done, .. } = self;
        let left = steps.saturating_sub(*done);
        // A number of steps has no more than 52 bits.
        #[expect(clippy::cast_precision_loss, reason = "the time is an estimate")]
        let rest = taken.mul_f64(left as f64 / (*done).max(1) as f64);
        format!("{verb} {noun} {done} of {steps}, about {} left", duration(rest))
    }
}

/// A duration in seconds, or in minutes and seconds.
fn duration(duration: Duration) -> String {
    match duration.as_secs() {
        seconds @ 0..60 => format!("{seconds} s"),
        seconds => format!("{} min {} s", seconds / 60, seconds % 60),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_time_left_follows_from_the_steps() {
        let work =
            Work { verb: "planning", noun: "zone", steps: 400, done: 100, begin: Instant::now() };
        let text = work.text(Duration::from_secs(30));
        assert_eq!(text, "planning zone 100 of 400, about 1 min 30 s left");
    }

    #[test]
    fn short_work_and_pipes_have_no_line() {
        for is_shown in [true, false] {
            let mut output = Vec::new();
            let mut progress = Progress { is_shown, ..Progress::default() };
            progress.begin("planning", "zone", 2);
            progress.step(&mut output).unwrap();
            if !is_shown {
                progress.work.as_mut().unwrap().begin -= 2 * DELAY;
                progress.step(&mut output).unwrap();
            }
            progress.end(&mut output).unwrap();
            assert!(output.is_empty());
        }
    }

    #[test]
    fn a_line_is_deleted_before_other_text() {
        let mut output = Vec::new();
        let mut progress = Progress { is_shown: true, ..Progress::default() };
        progress.begin("planning", "zone", 2);
        progress.work.as_mut().unwrap().begin -= 2 * DELAY;
        progress.step(&mut output).unwrap();
        progress.clear(&mut output).unwrap();
        let text = String::from_utf8(output).unwrap();
        assert!(text.contains("planning zone 1 of 2"), "{text}");
        assert!(text.ends_with(CLEAR), "{text}");
    }
}
