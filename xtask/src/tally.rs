//! [`Tally`]: counts what `cargo test` reports, and believes nothing that it does not report.
//!
//! Each test binary must end with a `test result:` line, as the standard harness and `libtest-mimic` write it. A binary without one has crashed, and
//! counts as a failure. So does each test that was ignored or filtered out: in the gate, nothing is skipped. And so does a run in which
//! no test ran at all.

/// What was checked, and what came of it.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Count {
    /// Checks that passed.
    pub(crate) passed: usize,
    /// Checks that did not pass, or were not made.
    pub(crate) failed: usize,
    /// The failed ones by name, as far as they have one.
    pub(crate) names: Vec<String>,
}

impl Count {
    /// One check that passed.
    pub(crate) fn one_passed() -> Self {
        Self { passed: 1, ..Self::default() }
    }

    /// One check that failed.
    pub(crate) fn one_failed(name: impl Into<String>) -> Self {
        Self { passed: 0, failed: 1, names: vec![name.into()] }
    }

    /// Adds another count to this one.
    pub(crate) fn add(&mut self, other: Self) {
        self.passed += other.passed;
        self.failed += other.failed;
        self.names.extend(other.names);
    }
}

/// The reader of `cargo test`'s output, line by line.
#[derive(Debug, Default)]
pub(crate) struct Tally {
    count: Count,
    binary: Option<Binary>,
}

/// The test binary whose output is being read.
#[derive(Debug)]
struct Binary {
    /// As cargo announced it.
    name: String,
    /// How many tests the harness said it would run, until it reports their result.
    announced: Option<usize>,
    /// How many result lines were read. Doc tests write two where some of them can't be merged.
    results: usize,
    /// Whether the harness has begun to repeat the output of what failed; from there on a line may say anything.
    repeating: bool,
}

impl Tally {
    /// Reads one line.
    pub(crate) fn line(&mut self, line: &str) {
        let line = without_colors(line);
        let line = line.trim();
        if let Some(name) = announced_binary(line) {
            self.close_binary();
            self.binary = Some(Binary { name, announced: None, results: 0, repeating: false });
        } else if let Some(tests) = announced_tests(line) {
            self.begin(tests);
        } else if let Some(result) = TestResult::parse(line) {
            self.result(&result);
        } else if line == "failures:" {
            if let Some(binary) = &mut self.binary {
                binary.repeating = true;
            }
        } else if let Some((test, verdict)) =
            line.strip_prefix("test ").and_then(|rest| rest.rsplit_once(" ... "))
        {
            self.verdict(test, verdict);
        }
    }

    /// Ends the reading, knowing whether `cargo test` itself ended well.
    pub(crate) fn finish(mut self, well: bool) -> Count {
        self.close_binary();
        if !well && self.count.failed == 0 {
            self.count.add(Count::one_failed("cargo test failed without naming a test (see its output)"));
        }
        if self.count.passed + self.count.failed == 0 {
            self.count.add(Count::one_failed("not a single test ran"));
        }
        self.count
    }

    fn begin(&mut self, tests: usize) {
        if let Some(binary) = &mut self.binary
            && binary.announced.is_none()
        {
            binary.announced = Some(tests);
            binary.repeating = false;
        }
    }

    fn verdict(&mut self, test: &str, verdict: &str) {
        let Some(binary) = &self.binary else { return };
        if binary.repeating {
            return;
        }
        let name = format!("{}: {}", binary.name, test.trim_end_matches(" - should panic"));
        if verdict.starts_with("FAILED") {
            self.count.names.push(name);
        } else if verdict.starts_with("ignored") {
            self.count.names.push(format!("{name} (ignored; run it or remove it, nothing is skipped here)"));
        }
    }

    fn result(&mut self, result: &TestResult) {
        if let Some(binary) = &mut self.binary {
            // A line that does not add up was written by a test, not by its harness.
            if binary.announced.is_some_and(|announced| announced != result.ran()) {
                return;
            }
            binary.announced = None;
            binary.results += 1;
            if result.filtered > 0 {
                self.count.names.push(format!("{}: {} tests filtered out", binary.name, result.filtered));
            }
        }
        self.count.passed += result.passed;
        self.count.failed += result.failed + result.ignored + result.filtered;
    }

    fn close_binary(&mut self) {
        if let Some(binary) = self.binary.take()
            && (binary.results == 0 || binary.announced.is_some())
        {
            self.count
                .add(Count::one_failed(format!("{}: ended without a result (it crashed?)", binary.name)));
        }
    }
}

/// The numbers of a `test result:` line.
#[derive(Debug, PartialEq, Eq)]
struct TestResult {
    passed: usize,
    failed: usize,
    ignored: usize,
    measured: usize,
    filtered: usize,
}

impl TestResult {
    fn parse(line: &str) -> Option<Self> {
        let (_verdict, numbers) = line.strip_prefix("test result: ")?.split_once(". ")?;
        let number = |label: &str| {
            numbers.split(';').find_map(|part| part.trim().strip_suffix(label)?.trim().parse::<usize>().ok())
        };
        Some(Self {
            passed: number("passed")?,
            failed: number("failed")?,
            ignored: number("ignored")?,
            measured: number("measured").unwrap_or(0),
            filtered: number("filtered out").unwrap_or(0),
        })
    }

    /// How many tests the harness had announced.
    fn ran(&self) -> usize {
        self.passed + self.failed + self.ignored + self.measured
    }
}

/// `Running unittests src/lib.rs (target/debug/deps/tenure_store-0123456789abcdef)`, `Doc-tests tenure_store`
fn announced_binary(line: &str) -> Option<String> {
    if let Some(library) = line.strip_prefix("Doc-tests ") {
        return Some(format!("{library} (docs)"));
    }
    let (source, path) = line.strip_prefix("Running ")?.strip_suffix(')')?.rsplit_once(" (")?;
    let file = path.rsplit(['/', '\\']).next().unwrap_or(path);
    let name = file.rsplit_once('-').map_or(file, |(name, _hash)| name);
    Some(if source.starts_with("unittests") { name.to_owned() } else { format!("{name} ({source})") })
}

/// `running 12 tests`
fn announced_tests(line: &str) -> Option<usize> {
    let (number, noun) = line.strip_prefix("running ")?.split_once(' ')?;
    matches!(noun, "test" | "tests").then(|| number.parse().ok())?
}

/// A line without terminal colours, which cargo writes where it is told to, even into a pipe.
fn without_colors(line: &str) -> String {
    let mut plain = String::with_capacity(line.len());
    let mut rest = line;
    while let Some((before, sequence)) = rest.split_once("\u{1b}[") {
        plain.push_str(before);
        rest = sequence.split_once(|c: char| c.is_ascii_alphabetic()).map_or("", |(_codes, after)| after);
    }
    plain + rest
}

#[cfg(test)]
mod tests {
    use super::*;

    const PASSING: &str = "\
     Running unittests src/lib.rs (target/debug/deps/alpha-0011223344556677)

running 2 tests
test one ... ok
test two - should panic ... ok

test result: ok. 2 passed; 0 failed; 0 ignored; 0 measured; 0 filtered out; finished in 0.00s
";

    fn tally(output: &str, well: bool) -> Count {
        let mut tally = Tally::default();
        output.lines().for_each(|line| tally.line(line));
        tally.finish(well)
    }

    #[test]
    fn results_of_all_binaries_add_up() {
        let output = PASSING.to_owned()
            + "   Doc-tests alpha\n\nrunning 1 test\ntest src/lib.rs - f (line 3) ... ok\n\n\
               test result: ok. 1 passed; 0 failed; 0 ignored; 0 measured; 0 filtered out; finished in 0.1s\n\n\
               running 4 tests\n\
               test result: ok. 4 passed; 0 failed; 0 ignored; 0 measured; 0 filtered out; finished in 0.1s\n";
        assert_eq!(tally(&output, true), Count { passed: 7, failed: 0, names: vec![] });
    }

    #[test]
    fn colors_do_not_matter() {
        let output = PASSING.replace("     Running", "\u{1b}[1m\u{1b}[92m     Running\u{1b}[0m");
        assert_eq!(tally(&output, true), Count { passed: 2, failed: 0, names: vec![] });
    }

    #[test]
    fn failures_are_named_with_their_binary() {
        let output = "     Running tests/live.rs (target/debug/deps/live-00)\nrunning 2 tests\n\
                      test a::b ... FAILED\ntest c ... ok\n\nfailures:\n\n---- a::b stdout ----\n\
                      test x ... FAILED\ntest result: ok. 9 passed; 0 failed; 0 ignored; 0 measured\n\n\
                      failures:\n    a::b\n\n\
                      test result: FAILED. 1 passed; 1 failed; 0 ignored; 0 measured; 0 filtered out; finished in 0s";
        let names = vec!["live (tests/live.rs): a::b".to_owned()];
        assert_eq!(tally(output, false), Count { passed: 1, failed: 1, names });
    }

    #[test]
    fn ignored_and_filtered_tests_are_failures() {
        let output = "Running unittests src/lib.rs (target/debug/deps/alpha-00)\nrunning 2 tests\n\
                      test a ... ok\ntest b ... ignored, slow\n\
                      test result: ok. 1 passed; 0 failed; 1 ignored; 0 measured; 3 filtered out; finished in 0s";
        let count = tally(output, true);
        assert_eq!((count.passed, count.failed), (1, 4));
        assert!(count.names[0].starts_with("alpha: b (ignored"), "{:?}", count.names);
        assert_eq!(count.names[1], "alpha: 3 tests filtered out");
    }

    #[test]
    fn a_binary_that_crashes_is_a_failure() {
        let crashed = "     Running tests/crash.rs (target/debug/deps/crash-00)\n\nrunning 3 tests\ntest a ... ok\n\
                       error: test failed, to rerun pass `-p alpha --test crash`\n\nCaused by:\n  process didn't exit successfully\n";
        let names = vec!["crash (tests/crash.rs): ended without a result (it crashed?)".to_owned()];
        for output in [format!("{crashed}{PASSING}"), format!("{PASSING}{crashed}")] {
            assert_eq!(tally(&output, false), Count { passed: 2, failed: 1, names: names.clone() });
        }
    }

    #[test]
    fn a_harness_that_reports_nothing_is_a_failure() {
        let output = format!("{PASSING}     Running tests/mute.rs (target/debug/deps/mute-00)\n");
        assert_eq!(tally(&output, true).failed, 1);
    }

    #[test]
    fn a_failure_of_cargo_itself_is_a_failure() {
        assert_eq!(tally(PASSING, false).failed, 1);
        assert_eq!(tally("error: could not compile `alpha`\n", false).failed, 1);
    }

    #[test]
    fn a_run_without_tests_is_a_failure() {
        let nothing = "Running unittests src/lib.rs (target/debug/deps/alpha-00)\nrunning 0 tests\n\
                       test result: ok. 0 passed; 0 failed; 0 ignored; 0 measured; 0 filtered out; finished in 0s";
        let names = vec!["not a single test ran".to_owned()];
        assert_eq!(tally(nothing, true), Count { passed: 0, failed: 1, names: names.clone() });
        assert_eq!(tally("", true).names, names);
    }
}
