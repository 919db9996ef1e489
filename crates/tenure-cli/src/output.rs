//! How commands print: as a table for people, or as JSON for programs.

use std::{
    borrow::Cow,
    io::{self, IsTerminal as _, Write as _},
    time::Duration,
};

use anyhow::bail;
use clap::Args;
use serde::Serialize;

use crate::exit::Exit;

/// How to print.
#[derive(Args, Clone, Copy, Debug)]
pub(crate) struct Output {
    /// Print JSON; tenure schema api describes it
    #[arg(long)]
    json: bool,
}

impl Output {
    /// Prints this as JSON, or as `text` says.
    ///
    /// # Errors
    /// When it can't be written; a reader that has gone is none.
    pub(crate) fn print<T: Serialize>(
        self,
        value: &T,
        text: impl FnOnce(&T) -> String,
    ) -> anyhow::Result<()> {
        if self.json {
            return say(&format!("{}\n", serde_json::to_string_pretty(value)?));
        }
        say(&plain(&text(value)))
    }

    /// Prints one of a stream: a line each.
    ///
    /// # Errors
    /// As [`Output::print`].
    pub(crate) fn line<T: Serialize>(self, value: &T, text: impl FnOnce(&T) -> String) -> anyhow::Result<()> {
        if self.json {
            return say(&format!("{}\n", serde_json::to_string(value)?));
        }
        say(&format!("{}\n", plain(&text(value)).replace('\n', " ")))
    }
}

/// Writes to standard output. Whoever closes it, as `head` does, wants no more.
///
/// # Errors
/// When it can't be written.
pub(crate) fn say(text: &str) -> anyhow::Result<()> {
    let mut out = io::stdout().lock();
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => std::process::exit(0),
        written => Ok(written?),
    }
}

/// Text without what could change a terminal: whoever wrote to the store may have put it there.
pub(crate) fn plain(text: &str) -> Cow<'_, str> {
    let harmful = |c: char| c != '\n' && (c.is_control() || is_bidi(c));
    if !text.contains(harmful) {
        return text.into();
    }
    let escape = |c: char| if harmful(c) { c.escape_unicode().to_string() } else { c.to_string() };
    text.chars().map(escape).collect::<String>().into()
}

/// Whether a character turns the direction of the text behind it.
fn is_bidi(c: char) -> bool {
    matches!(c, '\u{202A}'..='\u{202E}' | '\u{2066}'..='\u{2069}')
}

/// Whether somebody can be asked.
fn is_interactive() -> bool {
    io::stdin().is_terminal() && io::stderr().is_terminal()
}

/// Asks before something is done that others will feel.
#[derive(Args, Clone, Copy, Debug)]
pub(crate) struct Confirm {
    /// Do it without asking
    #[arg(long, short)]
    yes: bool,
}

impl Confirm {
    /// Refuses before anything is done, if there is nobody to ask.
    ///
    /// # Errors
    /// Then.
    pub(crate) fn must_be_possible(self) -> anyhow::Result<()> {
        if !self.yes && !is_interactive() {
            bail!(
                "this asks before it is done, and there is no terminal to ask at: give --yes if you mean it"
            );
        }
        Ok(())
    }

    /// Asks.
    ///
    /// # Errors
    /// Unless the answer is yes.
    pub(crate) fn ask(self, question: &str) -> anyhow::Result<()> {
        self.must_be_possible()?;
        if self.yes {
            return Ok(());
        }
        write!(io::stderr(), "{} [y/N] ", plain(question))?;
        let mut answer = String::new();
        io::stdin().read_line(&mut answer)?;
        match answer.trim().to_lowercase().as_str() {
            "y" | "yes" => Ok(()),
            _ => Err(Exit::Undone.context("nothing was done").into()),
        }
    }
}

/// A table: a heading, and rows whose columns are aligned. Numbers stand to the right.
pub(crate) struct Table {
    rows: Vec<Vec<String>>,
}

impl Table {
    pub(crate) fn new(heading: &[&str]) -> Self {
        Self { rows: vec![heading.iter().map(|word| word.to_uppercase()).collect()] }
    }

    pub(crate) fn row(&mut self, cells: impl IntoIterator<Item = String>) {
        let one_line = |cell: String| plain(&cell).replace('\n', " ");
        self.rows.push(cells.into_iter().map(one_line).collect());
    }

    /// The table as text; `none` if it has no rows. On a terminal, rows are cut to its width.
    pub(crate) fn text(&self, none: &str) -> String {
        self.text_within(terminal().map(|(width, _)| width), none)
    }

    fn text_within(&self, width_max: Option<usize>, none: &str) -> String {
        if self.rows.len() == 1 {
            return format!("{none}\n");
        }
        let columns = self.rows[0].len();
        let width = |column: usize| self.rows.iter().map(|row| row[column].chars().count()).max();
        let widths: Vec<usize> = (0..columns).map(|column| width(column).unwrap_or(0)).collect();
        let is_number = |cell: &str| cell.chars().all(|c| c.is_ascii_digit() || c == '+');
        let right: Vec<bool> =
            (0..columns).map(|column| self.rows[1..].iter().all(|row| is_number(&row[column]))).collect();
        let mut text = String::new();
        for row in &self.rows {
            let cells = row.iter().enumerate().map(|(column, cell)| {
                let pad = " ".repeat(widths[column] - cell.chars().count());
                if right[column] { format!("{pad}{cell}") } else { format!("{cell}{pad}") }
            });
            text += &cut(cells.collect::<Vec<_>>().join("  ").trim_end(), width_max);
            text.push('\n');
        }
        text
    }
}

/// A line, cut to a width.
fn cut(line: &str, width_max: Option<usize>) -> Cow<'_, str> {
    match width_max {
        Some(width) if line.chars().count() > width => {
            let kept: String = line.chars().take(width.saturating_sub(1)).collect();
            format!("{kept}\u{2026}").into()
        }
        _ => line.into(),
    }
}

/// How many columns and rows the terminal has, if the output is one.
pub(crate) fn terminal() -> Option<(usize, usize)> {
    let size = rustix::termios::tcgetwinsize(io::stdout()).ok()?;
    (size.ws_col > 0 && size.ws_row > 0).then(|| (size.ws_col.into(), size.ws_row.into()))
}

/// What is said of something that may be absent.
pub(crate) fn or_dash(text: Option<impl ToString>) -> String {
    text.map_or_else(|| "-".to_owned(), |text| text.to_string())
}

/// A time for people: `850ms`, `12s`, `3m04s`, `5h12m`, `9d03h`.
pub(crate) fn span(time: Duration) -> String {
    let seconds = time.as_secs();
    match seconds {
        0 => format!("{}ms", time.as_millis()),
        1..60 => format!("{seconds}s"),
        60..3600 => format!("{}m{:02}s", seconds / 60, seconds % 60),
        3600..86_400 => format!("{}h{:02}m", seconds / 3600, seconds / 60 % 60),
        _ => format!("{}d{:02}h", seconds / 86_400, seconds / 3600 % 24),
    }
}

/// How long ago that was, by this machine's wall clock.
pub(crate) fn ago(at_ms: u64, now: Duration) -> String {
    span(now.saturating_sub(Duration::from_millis(at_ms)))
}

/// A time of a wall clock, for people: `2026-11-18 07:12:03Z`.
pub(crate) fn utc(at_ms: u64) -> String {
    let (days, seconds) = (at_ms / 86_400_000, at_ms / 1000 % 86_400);
    // Years that begin in March, so that the day that is sometimes there comes last: counted from one that 400 divides.
    let days = days + 719_468;
    let (era, day) = (days / 146_097, days % 146_097);
    let year = (day - day / 1460 + day / 36_524 - day / 146_096) / 365;
    let day = day - (365 * year + year / 4 - year / 100);
    let month = (5 * day + 2) / 153;
    let (day, month) = (day - (153 * month + 2) / 5 + 1, if month < 10 { month + 3 } else { month - 9 });
    let year = era * 400 + year + u64::from(month <= 2);
    let (hours, minutes, seconds) = (seconds / 3600, seconds / 60 % 60, seconds % 60);
    format!("{year:04}-{month:02}-{day:02} {hours:02}:{minutes:02}:{seconds:02}Z")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_aligned_and_numbers_stand_right() {
        let mut table = Table::new(&["name", "term", "leader"]);
        assert_eq!(table.text("nothing"), "nothing\n");
        table.row(["nightly".into(), "7".into(), "a".into()]);
        table.row(["x".into(), "12".into(), "-".into()]);
        assert_eq!(table.text(""), "NAME     TERM  LEADER\nnightly     7  a\nx          12  -\n");
    }

    #[test]
    fn rows_are_cut_to_the_terminal() {
        let mut table = Table::new(&["name", "error"]);
        table.row(["a".into(), "it is too long".into()]);
        let cut = table.text_within(Some(10), "");
        assert_eq!(cut, "NAME  ERR\u{2026}\na     it \u{2026}\n");
        assert!(table.text_within(None, "").contains("it is too long"));
    }

    #[test]
    fn times_are_short() {
        let spans = [(0, "0ms"), (850, "850ms"), (12_000, "12s"), (184_000, "3m04s"), (18_720_000, "5h12m")];
        for (ms, text) in spans {
            assert_eq!(span(Duration::from_millis(ms)), text);
        }
        assert_eq!(span(Duration::from_secs(9 * 86_400 + 3 * 3600)), "9d03h");
        assert_eq!(ago(5000, Duration::from_secs(3)), "0ms", "clocks differ");
    }

    #[test]
    fn dates_are_those_of_the_calendar() {
        let dates = [
            (0, "1970-01-01 00:00:00Z"),
            (951_782_399_999, "2000-02-28 23:59:59Z"),
            (951_782_400_000, "2000-02-29 00:00:00Z"),
            (1_709_251_199_000, "2024-02-29 23:59:59Z"),
            (1_709_251_200_000, "2024-03-01 00:00:00Z"),
            (1_794_985_923_000, "2026-11-18 07:12:03Z"),
            (4_107_542_400_000, "2100-03-01 00:00:00Z"),
        ];
        for (ms, text) in dates {
            assert_eq!(utc(ms), text);
        }
        assert!(utc(u64::MAX).ends_with('Z'), "a wrong clock is told all the same");
    }

    #[test]
    fn what_could_change_a_terminal_is_shown_instead() {
        assert_eq!(plain("harmless 🌙\n"), "harmless 🌙\n");
        assert_eq!(plain("\u{1b}[2J\u{202e}\r"), "\\u{1b}[2J\\u{202e}\\u{d}");
        let mut table = Table::new(&["error"]);
        table.row(["two\nlines".to_owned()]);
        assert_eq!(table.text(""), "ERROR\ntwo lines\n");
    }
}
