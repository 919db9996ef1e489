//! [`View`]: how the demo looks: redrawn in place on a terminal, else a line for each thing that happens.

use std::{
    fmt::Write as _,
    io::{self, IsTerminal as _},
    time::Duration,
};

use tenure::store::Moment;

use super::show::{Phase, Round, Show, Verdict};
use crate::output::{say, terminal};

/// Between two drawings.
const DRAW_PAUSE: Duration = Duration::from_millis(100);

/// What a terminal has if it does not say.
const USUAL_SIZE: (usize, usize) = (80, 24);

/// Lines that are there whatever has happened.
const FIXED_LINES: usize = 15;

/// How something is painted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Paint {
    Plain,
    Dim,
    Bold,
    Good,
    Bad,
}

impl Paint {
    fn code(self) -> &'static str {
        match self {
            Self::Plain => "0",
            Self::Dim => "2",
            Self::Bold => "1",
            Self::Good => "32",
            Self::Bad => "31",
        }
    }
}

/// A line, in pieces that are painted alike.
#[derive(Clone, Debug, Default)]
struct Line(Vec<(Paint, String)>);

impl Line {
    fn with(mut self, paint: Paint, text: impl Into<String>) -> Self {
        self.0.push((paint, text.into()));
        self
    }

    fn plain(self, text: impl Into<String>) -> Self {
        self.with(Paint::Plain, text)
    }

    /// The line, cut to a width.
    fn text(&self, width: usize, color: bool) -> String {
        let (mut text, mut left) = (String::new(), width);
        for (paint, piece) in &self.0 {
            let cut: String = piece.chars().take(left).collect();
            left -= cut.chars().count();
            if color && *paint != Paint::Plain {
                let _ = write!(text, "\x1b[{}m{cut}\x1b[0m", paint.code());
            } else {
                text += &cut;
            }
        }
        text
    }
}

/// What is drawn, and what was.
#[derive(Debug)]
pub(crate) struct View {
    live: bool,
    color: bool,
    /// How many lines stand on the terminal.
    lines: usize,
    last: Option<Moment>,
    /// What was told already.
    told: (bool, usize),
}

impl View {
    pub(crate) fn new(plain: bool) -> Self {
        let live = !plain
            && io::stdout().is_terminal()
            && std::env::var_os("TERM").is_none_or(|term| term != "dumb");
        let color = live && std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty());
        Self { live, color, lines: 0, last: None, told: (false, 0) }
    }

    /// Shows what there is to see.
    ///
    /// # Errors
    /// When it can't be written.
    pub(crate) fn draw(&mut self, show: &mut Show) -> anyhow::Result<()> {
        if !self.live {
            return self.tell(show);
        }
        let now = show.env.now();
        if self.last.is_some_and(|last| now - last < DRAW_PAUSE) {
            return Ok(());
        }
        self.last = Some(now);
        self.redraw(show)
    }

    fn redraw(&mut self, show: &Show) -> anyhow::Result<()> {
        let (width, height) = terminal().unwrap_or(USUAL_SIZE);
        let mut lines = picture(show, height.saturating_sub(FIXED_LINES).max(1));
        if lines.len() >= height {
            lines.retain(|line| !line.0.is_empty());
        }
        lines.truncate(height.saturating_sub(1));
        let mut text = String::new();
        if self.lines > 0 {
            let _ = write!(text, "\x1b[{}A", self.lines);
        }
        for line in &lines {
            let _ = write!(text, "\r\x1b[2K{}\n", line.text(width, self.color));
        }
        text += "\x1b[J";
        self.lines = lines.len();
        say(&text)
    }

    fn tell(&mut self, show: &Show) -> anyhow::Result<()> {
        let (begun, rounds) = &mut self.told;
        if let (false, Some(address)) = (*begun, &show.address) {
            *begun = true;
            let (cluster, store) = (&show.place.cluster, store(show));
            say(&format!("cluster {cluster} in {store}\ndashboard {address}\nlook {}\n", look(show)))?;
        }
        for (index, round) in show.rounds.iter().enumerate().skip(*rounds) {
            let Round { killed, leader, term, took } = round;
            say(&format!(
                "round {}: {killed} killed; {leader} leads in term {term} after {}; {} increments, {} lost\n",
                index + 1,
                ms(*took),
                show.ledger.acknowledged(),
                show.ledger.lost()
            ))?;
        }
        *rounds = show.rounds.len();
        Ok(())
    }

    /// Shows the last picture, and what came of it.
    ///
    /// # Errors
    /// When it can't be written.
    pub(crate) fn end(&mut self, show: &Show, verdict: &Verdict) -> anyhow::Result<()> {
        if self.live {
            self.redraw(show)?;
        } else {
            self.tell(show)?;
        }
        let mut text = if self.live { "\n".to_owned() } else { String::new() };
        let takeovers = match show.rounds.len() {
            1 => "1 takeover".to_owned(),
            count => format!("{count} takeovers"),
        };
        let _ = match times(&show.rounds) {
            Some((least, median, most)) => {
                writeln!(text, "{takeovers}, after {} to {}, median {}", ms(least), ms(most), ms(median))
            }
            None => writeln!(text, "{takeovers}"),
        };
        let value = verdict.value.map_or_else(|| "not known".to_owned(), grouped);
        let _ = writeln!(
            text,
            "{} increments acknowledged, the counter is {value}: {} lost, {} doubled",
            grouped(show.ledger.acknowledged()),
            verdict.lost,
            verdict.doubled
        );
        for flaw in &verdict.flaws {
            let _ = writeln!(text, "{flaw}");
        }
        say(&text)
    }
}

/// The whole picture, with so many of the last rounds.
fn picture(show: &Show, rounds: usize) -> Vec<Line> {
    let now = show.env.now();
    let line = Line::default;
    let address = show.address.as_deref().unwrap_or("starting");
    let mut lines = vec![
        line()
            .with(Paint::Bold, "tenure demo")
            .with(Paint::Dim, format!("  {} in {}", show.place.cluster, store(show))),
        line().with(Paint::Dim, "dashboard    ").plain(address),
        line().with(Paint::Dim, "look         ").plain(look(show)),
        line(),
    ];
    for seat in &show.seats {
        let id = seat.process.as_ref().map_or(0, super::process::Process::id);
        let start = line().plain(format!("  {}  ", seat.name)).with(Paint::Dim, format!("pid {id:<8}"));
        lines.push(match (seat.killed, seat.ready, seat.leads) {
            (Some(at), ..) => start.with(Paint::Bad, format!("killed {:.1} s ago", (now - at).as_secs_f64())),
            (None, false, _) => start.with(Paint::Dim, "starting"),
            (None, true, leads) => {
                let start = match leads {
                    Some(term) => start.with(Paint::Good, format!("{:<16}", format!("leads, term {term}"))),
                    None => start.with(Paint::Dim, format!("{:<16}", "follows")),
                };
                match seat.works {
                    Some(term) => start.plain(format!("  runs the auditor, term {term}")),
                    None => start,
                }
            }
        });
    }
    let ledger = &show.ledger;
    let (lost, doubled) = (ledger.lost(), ledger.doubled());
    let paint = if lost + doubled == 0 { Paint::Good } else { Paint::Bad };
    lines.push(line());
    lines.push(
        line()
            .plain("  counter   ")
            .with(Paint::Bold, grouped(ledger.acknowledged()))
            .plain(" acknowledged, ")
            .with(paint, format!("{lost} lost, {doubled} doubled"))
            .with(Paint::Dim, format!("  ({} asked again)", grouped(ledger.again()))),
    );
    lines.push(line().plain(format!("  registry  {} names", show.names)));
    lines.push(line());
    if !show.rounds.is_empty() {
        lines.push(line().with(Paint::Dim, "  round  killed  took over   term      after"));
    }
    for (index, round) in show.rounds.iter().enumerate().rev().take(rounds) {
        lines.push(line().plain(format!(
            "  {:>5}  {:<6}  {:<9}  {:>5}  {:>9}",
            index + 1,
            round.killed,
            round.leader,
            round.term,
            ms(round.took)
        )));
    }
    lines.push(line());
    let next = match show.phase {
        _ if show.is_over() => return lines,
        Phase::Starting { .. } => "three nodes start".to_owned(),
        Phase::Resting { from } => {
            format!(
                "the leader is killed in {:.0} s",
                show.pause.saturating_sub(now - from).as_secs_f64().ceil()
            )
        }
        Phase::Fallen { .. } => "nobody leads".to_owned(),
        Phase::Settling { .. } => "the last increments are settled".to_owned(),
    };
    let times =
        times(&show.rounds).map(|(_, median, most)| format!("median {}, worst {}; ", ms(median), ms(most)));
    lines.push(line().with(Paint::Dim, format!("  {}{next}; Ctrl-C ends it", times.unwrap_or_default())));
    lines
}

/// The kind of store: its URL may have a password in it.
fn store(show: &Show) -> &str {
    show.place.url.split(':').next().unwrap_or_default()
}

/// How to look at it from another terminal. Only a file has a URL without a password.
fn look(show: &Show) -> String {
    let (cluster, url) = (&show.place.cluster, &show.place.url);
    match store(show) {
        "sqlite" => format!("tenure watch --cluster {cluster} --store {url}"),
        _ => format!("tenure watch --cluster {cluster}, with the same --store"),
    }
}

/// The shortest, the median and the longest.
fn times(rounds: &[Round]) -> Option<(Duration, Duration, Duration)> {
    let mut times: Vec<Duration> = rounds.iter().map(|round| round.took).collect();
    times.sort_unstable();
    Some((*times.first()?, times[times.len() / 2], *times.last()?))
}

fn ms(time: Duration) -> String {
    format!("{:.1} ms", time.as_secs_f64() * 1000.0)
}

/// A number with its thousands apart.
fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::new();
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_cut_by_what_is_seen() {
        let line = Line::default().with(Paint::Good, "green").plain(" and plain");
        assert_eq!(line.text(7, false), "green a");
        assert_eq!(line.text(7, true), "\x1b[32mgreen\x1b[0m a");
        assert_eq!(line.text(3, true), "\x1b[32mgre\x1b[0m");
    }

    #[test]
    fn thousands_are_apart() {
        assert_eq!([0, 999, 1000, 1_234_567].map(grouped), ["0", "999", "1,000", "1,234,567"]);
    }
}
