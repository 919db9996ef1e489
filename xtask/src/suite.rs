//! The tests of all crates: cargo builds them, and the programs run side by side.
//!
//! `cargo test` runs one test program after the other. Most of ours wait, for a server, for a process that was killed, for time to pass, so that
//! several share a machine well. Each runs as cargo would run it: in the folder of its package, with the compiler's libraries at hand. What it
//! wrote is printed whole when it ends. One that crashes, or hangs, counts as a failure; the others run all the same.

use std::{
    path::{Path, PathBuf},
    sync::{Mutex, MutexGuard},
    thread,
    time::Duration,
};

use anyhow::{Context, Result, bail};
use serde_json::Value;

use crate::{
    tally::{Count, Tally},
    task::{Ended, Task, now},
    workspace::Workspace,
};

/// What cargo is told whenever it builds tests. The same for all, so that nothing is built twice.
const TEST: &[&str] = &["test", "--workspace", "--all-features", "--locked"];

/// Programs that run at a time. They wait more than they compute, so it is one more than the two cores of a small machine; were it many more, a
/// test that must be on time would wait for a processor.
const AT_A_TIME: usize = 3;

/// How long a program may run: several times what the longest takes on a slow machine.
const LIMIT: Duration = Duration::from_secs(20 * 60);

/// Programs that take long, the longest first: begun last, they would run alone in the end. The others follow in cargo's order.
const FIRST: &[&str] = &[
    "crates/tenure-cli/tests/never_two/main.rs",
    "crates/tenure-sim/tests/registry.rs",
    "crates/tenure-sim/tests/seeds.rs",
    "crates/tenure/tests/names/main.rs",
    "crates/tenure-mysql/tests/conformance.rs",
    "crates/tenure-mysql/tests/outages.rs",
    "crates/tenure-postgres/tests/conformance.rs",
    "crates/tenure-mysql/tests/clock.rs",
    "crates/tenure-sim/tests/servers.rs",
    "crates/tenure/tests/torture/main.rs",
    "crates/tenure-cluster/tests/sql_guards/main.rs",
    "crates/tenure-sqlite/tests/processes/main.rs",
    "crates/tenure-sim/tests/planted.rs",
    "crates/tenure-postgres/tests/outages.rs",
    "crates/tenure-etcd/tests/conformance.rs",
    "crates/tenure/tests/failover/main.rs",
    "crates/tenure/tests/servers/main.rs",
    "testbed/tests/servers/main.rs",
    "crates/tenure-etcd/tests/outages.rs",
];

/// Where the programs are that compute all the time, on every core: one of them at a time, beside others that wait.
const COMPUTING: &str = "crates/tenure-sim/";

/// A test program, as cargo has built it.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Program {
    /// Its main file, from the root of the workspace.
    name: String,
    executable: String,
    /// The folder of its package.
    folder: PathBuf,
}

/// Builds all tests, and what they and the examples need. What cargo says is printed as it comes.
///
/// # Errors
/// If something can't be built.
pub(crate) fn build(workspace: &Workspace) -> Result<Vec<Program>> {
    let task = workspace.cargo(&[TEST, &["--no-run", "--message-format=json-render-diagnostics"]].concat());
    let mut messages = Vec::new();
    let ended = task.stream(|line| {
        // Messages for machines are objects, one a line, among those for people.
        if line.starts_with('{') {
            messages.push(line.to_owned());
        } else {
            println!("{line}");
        }
    })?;
    if !ended.well() {
        bail!("the tests could not be built, so none has run: `{task}`: {ended}");
    }
    programs(&messages, workspace.root())
}

/// Runs the programs, a few at a time, with these variables.
///
/// # Errors
/// If the compiler does not tell where its libraries are.
pub(crate) fn run(
    workspace: &Workspace,
    programs: Vec<Program>,
    variables: &[(String, String)],
) -> Result<Count> {
    let libraries = ("LD_LIBRARY_PATH".to_owned(), libraries(workspace)?);
    let variables = [variables, &[libraries]].concat();
    let waiting = Mutex::new(Waiting { programs: in_order(programs), computing: 0 });
    let count = Mutex::new(Count::default());
    let take = || locked(&waiting).take();
    thread::scope(|scope| {
        for _ in 0..AT_A_TIME {
            scope.spawn(|| {
                while let Some(program) = take() {
                    println!("     Started {}", program.name);
                    let begun = now();
                    let outcome = program.task(&variables).capture();
                    locked(&waiting).ended(&program);
                    locked(&count).add(report(&program, begun.elapsed(), outcome));
                }
            });
        }
    });
    let count = std::mem::take(&mut *locked(&count));
    Ok(count)
}

/// Runs the tests in the docs, which cargo builds as it goes, with these variables.
///
/// # Errors
/// If cargo can't be started.
pub(crate) fn docs(workspace: &Workspace, variables: &[(String, String)]) -> Result<Count> {
    let task = with(variables, workspace.cargo(&[TEST, &["--doc", "--no-fail-fast"]].concat()));
    let mut tally = Tally::docs("cargo test --doc");
    let ended = task.stream(|line| {
        println!("{line}");
        tally.line(line);
    })?;
    if !ended.well() {
        println!("`{task}`: {ended}");
    }
    Ok(tally.finish(ended))
}

impl Program {
    fn task(&self, variables: &[(String, String)]) -> Task {
        let task = Task::program(&self.folder, &self.executable, &[]).limit(LIMIT);
        with(variables, task.env("CARGO_MANIFEST_DIR", &self.folder.display().to_string()))
    }

    fn computes(&self) -> bool {
        self.name.starts_with(COMPUTING)
    }
}

/// What has not been started yet.
struct Waiting {
    /// In the order in which they should start.
    programs: Vec<Program>,
    /// How many of those that run compute all the time.
    computing: usize,
}

impl Waiting {
    /// The next to start. A second one that computes only if nothing else is left.
    fn take(&mut self) -> Option<Program> {
        let next = self.programs.iter().position(|program| self.computing == 0 || !program.computes());
        let next = next.or((!self.programs.is_empty()).then_some(0))?;
        let program = self.programs.remove(next);
        self.computing += usize::from(program.computes());
        Some(program)
    }

    /// One that was taken has ended.
    fn ended(&mut self, program: &Program) {
        self.computing -= usize::from(program.computes());
    }
}

/// Prints what a program wrote, and counts it.
fn report(program: &Program, took: Duration, outcome: Result<(Ended, String)>) -> Count {
    // Nobody else prints until all of it is out.
    let _out = std::io::stdout().lock();
    println!("       Ended {} after {:.1} s ({})", program.name, took.as_secs_f64(), program.executable);
    let (ended, output) = match outcome {
        Ok(ran) => ran,
        Err(error) => {
            println!("{error:#}");
            return Count::one_failed(format!("{}: could not be run", program.name));
        }
    };
    print!("{output}");
    if !ended.well() {
        println!("{}: {ended}", program.name);
    }
    let mut tally = Tally::program(&program.name);
    output.lines().for_each(|line| tally.line(line));
    tally.finish(ended)
}

/// The test programs that cargo's messages tell of.
fn programs(messages: &[String], root: &Path) -> Result<Vec<Program>> {
    let mut found = Vec::new();
    for message in messages {
        let message: Value = serde_json::from_str(message)
            .with_context(|| format!("cargo printed a message that is no JSON: {message}"))?;
        // What is built for tests but is none, as an example, has a profile that says so.
        if message["profile"]["test"] != true {
            continue;
        }
        let text = |value: &Value| value.as_str().map(str::to_owned);
        let manifest = text(&message["manifest_path"]);
        let (Some(executable), Some(source), Some(folder)) = (
            text(&message["executable"]),
            text(&message["target"]["src_path"]),
            manifest.as_deref().map(Path::new).and_then(Path::parent),
        ) else {
            bail!("cargo built a test, but does not tell where it is, or what it comes from: {message}");
        };
        let source = Path::new(&source);
        let name = source.strip_prefix(root).unwrap_or(source).display().to_string();
        found.push(Program { name, executable, folder: folder.to_owned() });
    }
    Ok(found)
}

/// Those of [`FIRST`] first, in its order, and the others as they come.
fn in_order(mut programs: Vec<Program>) -> Vec<Program> {
    programs
        .sort_by_key(|program| FIRST.iter().position(|name| *name == program.name).unwrap_or(FIRST.len()));
    programs
}

/// Where programs look for libraries: the compiler's own first, which the tests of a macro are linked to.
fn libraries(workspace: &Workspace) -> Result<String> {
    let task = Task::program(workspace.root(), "rustc", &["--print", "target-libdir"]);
    let (ended, output) = task.capture()?;
    if !ended.well() {
        bail!("`{task}` failed ({ended}):\n{output}");
    }
    let others = std::env::var("LD_LIBRARY_PATH").ok().filter(|folders| !folders.is_empty());
    Ok([Some(output.trim().to_owned()), others].into_iter().flatten().collect::<Vec<_>>().join(":"))
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().expect("nobody panics while holding it")
}

fn with(variables: &[(String, String)], task: Task) -> Task {
    variables.iter().fold(task, |task, (name, value)| task.env(name, value))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn program(name: &str) -> Program {
        Program { name: name.to_owned(), executable: String::new(), folder: PathBuf::new() }
    }

    /// A program that is a script, run and counted.
    fn ran(script: &str, limit: Duration) -> Count {
        let task = Task::program(Path::new("."), "sh", &["-c", script]).limit(limit);
        report(&program("a.rs"), limit, task.capture())
    }

    #[test]
    fn test_programs_are_told_from_all_else_that_is_built() {
        let artifact = |source: &str, test: bool, executable: Value| {
            json!({
                "reason": "compiler-artifact", "manifest_path": "/w/crates/a/Cargo.toml", "executable": executable,
                "target": { "src_path": format!("/w/crates/a/{source}"), "test": true }, "profile": { "test": test },
            })
        };
        let messages = [
            artifact("src/lib.rs", false, Value::Null),
            artifact("src/lib.rs", true, json!("/t/a-1")),
            json!({ "reason": "build-script-executed", "package_id": "b" }),
            artifact("examples/tour.rs", false, json!("/t/tour")),
            artifact("tests/live/main.rs", true, json!("/t/live-2")),
            json!({ "reason": "build-finished", "success": true }),
        ];
        let found = programs(&messages.map(|message| message.to_string()), Path::new("/w")).unwrap();
        let expected = |name: &str, executable: &str| Program {
            name: name.to_owned(),
            executable: executable.to_owned(),
            folder: PathBuf::from("/w/crates/a"),
        };
        assert_eq!(
            found,
            [expected("crates/a/src/lib.rs", "/t/a-1"), expected("crates/a/tests/live/main.rs", "/t/live-2")]
        );
    }

    #[test]
    fn a_message_that_cannot_be_read_is_an_error() {
        let error = programs(&["{\"reason\"".to_owned()], Path::new("/w")).unwrap_err();
        assert!(error.to_string().contains("no JSON"), "{error}");
        let whole = json!({
            "profile": { "test": true }, "executable": "/t/a-1",
            "target": { "src_path": "/w/a/src/lib.rs" }, "manifest_path": "/w/a/Cargo.toml",
        });
        assert_eq!(programs(&[whole.to_string()], Path::new("/w")).unwrap().len(), 1);
        for field in ["executable", "target", "manifest_path"] {
            let mut message = whole.clone();
            message[field] = Value::Null;
            let error = programs(&[message.to_string()], Path::new("/w")).unwrap_err();
            assert!(error.to_string().contains("does not tell where it is"), "{error}");
        }
    }

    #[test]
    fn long_ones_start_first_and_the_others_in_cargos_order() {
        let programs = in_order([program("z"), program(FIRST[1]), program("a"), program(FIRST[0])].into());
        let names: Vec<&str> = programs.iter().map(|program| program.name.as_str()).collect();
        assert_eq!(names, [FIRST[0], FIRST[1], "z", "a"]);
    }

    #[test]
    fn those_that_start_first_exist() {
        for name in FIRST {
            assert!(
                Workspace::here().root().join(name).is_file(),
                "there is no {name} any more: FIRST names it"
            );
        }
    }

    #[test]
    fn those_that_compute_start_one_after_the_other() {
        let (one, two) = (format!("{COMPUTING}one"), format!("{COMPUTING}two"));
        let programs = vec![program(&one), program(&two), program("waits")];
        let mut waiting = Waiting { programs, computing: 0 };
        let mut take = || waiting.take().map(|program| program.name);
        assert_eq!(take().as_deref(), Some(one.as_str()));
        assert_eq!(take().as_deref(), Some("waits"));
        assert_eq!(take().as_deref(), Some(two.as_str()), "nothing else is left");
        assert_eq!(take(), None);

        let mut waiting =
            Waiting { programs: vec![program(&one), program(&two), program("waits")], computing: 0 };
        let first = waiting.take().unwrap();
        waiting.ended(&first);
        assert_eq!(waiting.take(), Some(program(&two)), "the first has ended");
    }

    #[test]
    fn a_program_that_crashes_hangs_or_is_not_there_is_a_failure_with_a_name() {
        let result = "test result: ok. 1 passed; 0 failed; 0 ignored; 0 measured; 0 filtered out";
        let well = format!("echo running 1 test; echo test a ... ok; echo '{result}'");
        let (long, short) = (Duration::from_secs(60), Duration::from_millis(300));
        assert_eq!(ran(&well, long), Count::one_passed());
        for (script, limit, how) in [
            ("echo running 1 test; kill -ABRT $$", long, "ended without a result (signal: 6 (SIGABRT)"),
            ("echo running 1 test; sleep 100", short, "ended without a result (killed after its limit"),
            (&format!("{well}; kill -KILL $$"), long, "did not end well (signal: 9 (SIGKILL)"),
        ] {
            let count = ran(script, limit);
            assert!(count.failed == 1 && count.names[0].contains(how), "{script}: {count:?}");
            assert!(count.names[0].starts_with("a.rs: "), "{count:?}");
        }
        let missing = Program { executable: "/no/such/program".to_owned(), ..program("a.rs") };
        let count = report(&missing, short, missing.task(&[]).capture());
        assert_eq!(count, Count::one_failed("a.rs: could not be run"));
    }
}
