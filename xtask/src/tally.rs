//! [`Tally`]: counts what a test program reports, and believes nothing that it does not report.
//!
//! Each must end with a `test result:` line, as the standard harness and `libtest-mimic` write it. One without has crashed or was killed, and
//! counts as a failure. So does one that reports no failure and still does not end well, and so does each test that was ignored or filtered out:
//! in the gate, nothing is skipped.

use crate::task::Ended;

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

    /// This count, or a failure if nothing was checked at all.
    pub(crate) fn or_failure(self, name: &str) -> Self {
        if self.passed + self.failed == 0 { Self::one_failed(name) } else { self }
    }

    /// Adds another count to this one.
    pub(crate) fn add(&mut self, other: Self) {
        self.passed += other.passed;
        self.failed += other.failed;
        self.names.extend(other.names);
    }
}

/// The reader of one process's output, line by line.
#[derive(Debug)]
pub(crate) struct Tally {
    /// What failures are named after that have no other name.
    name: String,
    count: Count,
    binary: Option<Binary>,
}

/// The harness whose output is being read.
#[derive(Debug)]
struct Binary {
    /// What its tests are named after.
    name: String,
    /// How many tests the harness said it would run, until it reports their result.
    announced: Option<usize>,
    /// How many result lines were read. Doc tests write two where some of them can't be merged.
    results: usize,
    /// Whether the harness has begun to repeat the output of what failed; from there on a line may say anything.
    repeating: bool,
}

impl Tally {
    /// For a test program, which is one harness.
    pub(crate) fn program(name: &str) -> Self {
        Self { name: name.to_owned(), count: Count::default(), binary: Some(Binary::new(name.to_owned())) }
    }

    /// For a command of cargo's that runs the tests in the docs: one harness after the other, each announced by the name of its library.
    pub(crate) fn docs(name: &str) -> Self {
        Self { name: name.to_owned(), count: Count::default(), binary: None }
    }

    /// Reads one line.
    pub(crate) fn line(&mut self, line: &str) {
        let line = without_colors(line);
        let line = line.trim();
        if let Some(library) = line.strip_prefix("Doc-tests ") {
            self.close_binary("the next one has begun");
            self.binary = Some(Binary::new(format!("{library} (docs)")));
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

    /// Ends the reading, knowing how the process ended.
    pub(crate) fn finish(mut self, ended: Ended) -> Count {
        self.close_binary(&ended.to_string());
        if !ended.well() && self.count.failed == 0 {
            let name = format!("{}: no test failed, but it did not end well ({ended})", self.name);
            self.count.add(Count::one_failed(name));
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

    fn close_binary(&mut self, how: &str) {
        if let Some(binary) = self.binary.take()
            && (binary.results == 0 || binary.announced.is_some())
        {
            self.count.add(Count::one_failed(format!("{}: ended without a result ({how})", binary.name)));
        }
    }
}

impl Binary {
    fn new(name: String) -> Self {
        Self { name, announced: None, results: 0, repeating: false }
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
    use std::{os::unix::process::ExitStatusExt as _, process::ExitStatus, time::Duration};

    use super::*;

    const PASSING: &str = "
running 2 tests
test one ... ok
test two - should panic ... ok

test result: ok. 2 passed; 0 failed; 0 ignored; 0 measured; 0 filtered out; finished in 0.00s
";
    const DOCS: &str = "   Doc-tests alpha\n\nrunning 1 test\ntest src/lib.rs - f (line 3) ... ok\n\n\
        test result: ok. 1 passed; 0 failed; 0 ignored; 0 measured; 0 filtered out; finished in 0.1s\n";

    fn exit(code: i32) -> Ended {
        Ended::Exit(ExitStatus::from_raw(code << 8))
    }

    fn read(mut tally: Tally, output: &str, ended: Ended) -> Count {
        output.lines().for_each(|line| tally.line(line));
        tally.finish(ended)
    }

    fn program(output: &str, ended: Ended) -> Count {
        read(Tally::program("a.rs"), output, ended)
    }

    fn docs(output: &str, ended: Ended) -> Count {
        read(Tally::docs("cargo"), output, ended)
    }

    #[test]
    fn results_of_all_harnesses_add_up() {
        assert_eq!(program(PASSING, exit(0)), Count { passed: 2, failed: 0, names: vec![] });
        let output = format!(
            "{DOCS}\nrunning 4 tests\n\
             test result: ok. 4 passed; 0 failed; 0 ignored; 0 measured; 0 filtered out; finished in 0.1s\n{DOCS}"
        );
        assert_eq!(docs(&output, exit(0)), Count { passed: 6, failed: 0, names: vec![] });
    }

    #[test]
    fn colors_do_not_matter() {
        let output = "\u{1b}[1m\u{1b}[92m   Doc-tests\u{1b}[0m alpha\nrunning 1 test\ntest a ... \u{1b}[31mFAILED\u{1b}[0m\n\
                      test result: FAILED. 0 passed; 1 failed; 0 ignored; 0 measured; 0 filtered out; finished in 0s";
        let names = vec!["alpha (docs): a".to_owned()];
        assert_eq!(docs(output, exit(101)), Count { passed: 0, failed: 1, names });
    }

    #[test]
    fn failures_are_named_after_their_program() {
        let output = "running 2 tests\n\
                      test a::b ... FAILED\ntest c ... ok\n\nfailures:\n\n---- a::b stdout ----\n\
                      test x ... FAILED\ntest result: ok. 9 passed; 0 failed; 0 ignored; 0 measured\n\n\
                      failures:\n    a::b\n\n\
                      test result: FAILED. 1 passed; 1 failed; 0 ignored; 0 measured; 0 filtered out; finished in 0s";
        let names = vec!["a.rs: a::b".to_owned()];
        assert_eq!(program(output, exit(101)), Count { passed: 1, failed: 1, names });
        let names = vec!["alpha (docs): a::b".to_owned()];
        assert_eq!(
            docs(&format!("{DOCS}Doc-tests alpha\n{output}\n{DOCS}"), exit(101)),
            Count { passed: 3, failed: 1, names }
        );
    }

    #[test]
    fn ignored_and_filtered_tests_are_failures() {
        let output = "running 2 tests\n\
                      test a ... ok\ntest b ... ignored, slow\n\
                      test result: ok. 1 passed; 0 failed; 1 ignored; 0 measured; 3 filtered out; finished in 0s";
        let count = program(output, exit(0));
        assert_eq!((count.passed, count.failed), (1, 4));
        assert!(count.names[0].starts_with("a.rs: b (ignored"), "{:?}", count.names);
        assert_eq!(count.names[1], "a.rs: 3 tests filtered out");
    }

    #[test]
    fn a_program_that_crashes_or_hangs_is_a_failure() {
        let begun = "running 3 tests\ntest a ... ok\n";
        for (ended, how) in [
            (Ended::Exit(ExitStatus::from_raw(6)), "signal: 6 (SIGABRT)"),
            (Ended::TimedOut(Duration::from_secs(9)), "killed after its limit of 9 s"),
            (exit(0), "exit status: 0"),
        ] {
            let names = vec![format!("a.rs: ended without a result ({how})")];
            assert_eq!(program(begun, ended), Count { passed: 0, failed: 1, names });
            assert_eq!(program("", ended).failed, 1, "a harness that reports nothing");
        }
        assert_eq!(docs(&format!("{DOCS}{begun}"), exit(0)).failed, 1, "the second result is missing");
        let output = format!("{DOCS}Doc-tests beta\n{begun}{DOCS}");
        assert_eq!(
            docs(&output, exit(101)).names,
            ["beta (docs): ended without a result (the next one has begun)"]
        );
    }

    #[test]
    fn a_program_that_passes_and_still_does_not_end_well_is_a_failure() {
        let names = ["a.rs: no test failed, but it did not end well (signal: 11 (SIGSEGV))"];
        let count = program(PASSING, Ended::Exit(ExitStatus::from_raw(11)));
        assert_eq!((count.passed, count.failed), (2, 1));
        assert_eq!(count.names, names);
        let names = ["cargo: no test failed, but it did not end well (exit status: 101)"];
        assert_eq!(docs("error: could not compile `alpha`\n", exit(101)).names, names);
    }

    #[test]
    fn a_run_without_tests_is_a_failure() {
        let nothing = "running 0 tests\n\
                       test result: ok. 0 passed; 0 failed; 0 ignored; 0 measured; 0 filtered out; finished in 0s";
        assert_eq!(program(nothing, exit(0)).or_failure("nothing"), Count::one_failed("nothing"));
        assert_eq!(program(PASSING, exit(0)).or_failure("nothing").failed, 0);
    }
}
