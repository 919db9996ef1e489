//! `cargo xtask test`: the gate. Every step runs, whatever came of those before it, so that one run shows everything that is wrong.
//! Only a missing toolchain or a full disk ends it at once, since nothing else could run.
//!
//! The last line printed is `N passed, M failed`. A step counts as one check, the tests count one by one, and so do the examples.

use std::{io::Write, process::ExitCode, time::Duration};

use anyhow::Result;

use crate::{
    disk, needs,
    services::Services,
    suite,
    tally::Count,
    task::{Task, now},
    tidy,
    workspace::Workspace,
};

/// An example shows something to a reader, who would not wait longer.
const EXAMPLE_LIMIT: Duration = Duration::from_secs(120);

/// A part of the gate.
struct Step {
    name: &'static str,
    /// What it does, for whoever watches.
    does: &'static str,
    run: fn(&Workspace) -> Result<Count>,
}

/// What must be there before anything can be checked.
const TOOLCHAIN: Step = Step {
    name: "toolchain",
    does: "what the other steps need, installed where possible, and room on disk",
    run: toolchain,
};

/// The steps, the quick ones first.
const STEPS: &[Step] = &[
    Step { name: "tidy", does: "rules about the repository's text", run: tidy },
    Step { name: "format", does: "cargo fmt --check", run: format },
    Step { name: "clippy", does: "lints of all targets and features, no warnings", run: clippy },
    Step { name: "docs", does: "cargo doc, private items too, no warnings", run: docs },
    Step {
        name: "tests",
        does: "all tests, side by side, then those in the docs, with servers of their own",
        run: tests,
    },
    Step { name: "examples", does: "each example of each crate runs to its end", run: examples },
];

/// Runs everything, prints the verdict, and returns success only if all that should have run has passed.
pub(crate) fn run(workspace: &Workspace) -> ExitCode {
    let begun = now();
    println!("The gate: {} steps. Steps that pass are silent, but for the tests.", STEPS.len() + 1);
    let mut total = perform(&TOOLCHAIN, 1, workspace);
    if total.failed == 0 {
        for (step, number) in STEPS.iter().zip(2..) {
            total.add(perform(step, number, workspace));
        }
    } else {
        println!("\nThe other steps were not run: they need what is missing.");
    }
    println!("\nAll done in {}.", seconds(begun.elapsed()));
    if total.failed > 0 {
        println!("Failed:");
        total.names.iter().for_each(|name| println!("  {name}"));
    }
    println!("{} passed, {} failed", total.passed, total.failed);
    if total.failed == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

fn perform(step: &Step, number: usize, workspace: &Workspace) -> Count {
    println!("\n[{number}/{}] {}: {}", STEPS.len() + 1, step.name, step.does);
    // Nobody who watches a pipe should wait for a full buffer to learn what is going on.
    let _ = std::io::stdout().flush();
    let begun = now();
    let count = (step.run)(workspace).unwrap_or_else(|error| {
        println!("{error:#}");
        Count::one_failed(format!("{}: could not be run", step.name))
    });
    let verdict = if count.failed == 0 { "ok" } else { "FAILED" };
    println!(
        "[{number}/{}] {}: {verdict}, {} passed, {} failed, {}",
        STEPS.len() + 1,
        step.name,
        count.passed,
        count.failed,
        seconds(begun.elapsed())
    );
    count
}

fn toolchain(workspace: &Workspace) -> Result<Count> {
    let missing = needs::provide(needs::NEEDS, &needs::Machine::new(workspace.root()));
    for instruction in &missing {
        println!("{instruction}");
    }
    if !missing.is_empty() {
        return Ok(Count::one_failed(
            "toolchain: something is missing and could not be installed (see above)",
        ));
    }
    let mut room = true;
    for disk in disk::disks(workspace)? {
        match disk.verdict() {
            Ok(None) => {}
            Ok(Some(warning)) => println!("{warning}"),
            Err(error) => {
                println!("{error}");
                room = false;
            }
        }
    }
    if room {
        return Ok(Count::one_passed());
    }
    Ok(Count::one_failed("toolchain: a disk has too little room (see above)"))
}

fn tidy(workspace: &Workspace) -> Result<Count> {
    let findings = tidy::check(workspace)?;
    findings.iter().for_each(|finding| println!("{finding}"));
    if findings.is_empty() {
        return Ok(Count::one_passed());
    }
    Ok(Count::one_failed(format!("tidy: {} findings", findings.len())))
}

fn format(workspace: &Workspace) -> Result<Count> {
    quiet("format", &workspace.cargo(&["fmt", "--all", "--check"]))
}

fn clippy(workspace: &Workspace) -> Result<Count> {
    let args =
        ["clippy", "--workspace", "--all-targets", "--all-features", "--locked", "--", "-D", "warnings"];
    quiet("clippy", &workspace.cargo(&args))
}

fn docs(workspace: &Workspace) -> Result<Count> {
    let args = ["doc", "--workspace", "--no-deps", "--all-features", "--document-private-items", "--locked"];
    quiet("docs", &workspace.cargo(&args).env("RUSTDOCFLAGS", "-D warnings"))
}

fn tests(workspace: &Workspace) -> Result<Count> {
    let programs = suite::build(workspace)?;
    // Gone when this returns, or with this process, whatever happens.
    let services = Services::start(true)?;
    let variables = services.variables();
    let mut count = suite::run(workspace, programs, &variables)?;
    count.add(suite::docs(workspace, &variables)?);
    Ok(count.or_failure("not a single test ran"))
}

fn examples(workspace: &Workspace) -> Result<Count> {
    // The tests before this have built them all.
    let mut count = Count::default();
    let metadata = workspace.metadata()?;
    // Some show how elections are shared with others, which takes a server.
    let services = Services::start(false)?;
    let built = metadata.target_folder()?.join("debug").join("examples");
    for target in metadata.targets("example")? {
        let name = format!("example {} of {}", target.name, target.package);
        println!("  {name}");
        let program = built.join(&target.name).display().to_string();
        let mut task = Task::program(workspace.root(), &program, &[]).limit(EXAMPLE_LIMIT);
        for (variable, url) in services.variables() {
            task = task.env(&variable, &url);
        }
        count.add(quiet(&name, &task)?);
    }
    Ok(count)
}

/// Runs a task that is one check, and shows its output only if it fails.
fn quiet(name: &str, task: &Task) -> Result<Count> {
    let (ended, output) = task.capture()?;
    if ended.well() {
        return Ok(Count::one_passed());
    }
    println!("{output}`{task}`: {ended}");
    Ok(Count::one_failed(name))
}

fn seconds(duration: Duration) -> String {
    format!("{:.1} s", duration.as_secs_f64())
}
