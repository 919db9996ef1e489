//! What this program is when a test has started it: a node, or the executor of its will.

use std::{
    fs::{self, File, OpenOptions},
    io::{BufRead as _, Write as _},
    path::Path,
    process::ExitCode,
};

use nix::fcntl::{FcntlArg, FdFlag, fcntl};
use tenure_cluster::{
    Owner, SessionId,
    will::{self, LastWill, WillProgram},
};
use tenure_store::Env;

/// The first arguments that give this program its role; the second is a folder.
pub(crate) const EXECUTOR: &str = "--executor";
pub(crate) const NODE: &str = "--node";

/// What nobody but the executor may be told.
pub(crate) const SECRET: &str = "correct-horse";

/// Where the executor writes what it did: a line a will.
pub(crate) const DONE: &str = "done";

/// Keeps a will, and writes a line to carry it out.
pub(crate) fn executor(folder: String) -> ExitCode {
    will::executor(move |will| {
        assert!(will.url().contains(SECRET), "it was handed over");
        let path = Path::new(&folder).join(DONE);
        let file = OpenOptions::new().create(true).append(true).open(path);
        let line = format!("{}\n", will.session());
        file.and_then(|mut file| file.write_all(line.as_bytes())).map_err(|error| error.to_string())
    })
}

/// A program that has a will from the start, and does what it reads.
pub(crate) fn node(folder: &str) -> ExitCode {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    // A library that does not care would leave this to every program we start.
    let _held = inheritable(folder);
    runtime.block_on(serve(folder));
    ExitCode::SUCCESS
}

async fn serve(folder: &str) {
    let env = Env::system();
    let owner = Owner::this_process(None);
    let program = program(folder);
    let will = |session| program.will(&"orders".parse().unwrap(), session, &owner);
    let first = SessionId::random(&env);
    let mut kept = Some(LastWill::start(&program, &will(first), &env).await.unwrap());
    let executor = |kept: &Option<LastWill>| kept.as_ref().and_then(LastWill::process_id).unwrap_or(0);
    println!("{} {first}", executor(&kept));
    for line in std::io::stdin().lock().lines() {
        let session = SessionId::random(&env);
        match line.unwrap().as_str() {
            "replace" => kept.as_mut().unwrap().replace(&will(session), &env).await.unwrap(),
            "revoke" => kept.take().unwrap().revoke(&env).await,
            "drop" => drop(kept.take()),
            "lose" => println!("{}", kept.as_mut().unwrap().lost(&env).await),
            "start" => kept = Some(LastWill::start(&program, &will(session), &env).await.unwrap()),
            "return" => return,
            "exit" => std::process::exit(0),
            other => panic!("{other:?} is no command"),
        }
        println!("{} {session}", executor(&kept));
    }
}

pub(crate) fn program(folder: &str) -> WillProgram {
    let url = format!("postgres://user:{SECRET}@host/db");
    WillProgram::new(std::env::current_exe().unwrap(), url).unwrap().argument(EXECUTOR).argument(folder)
}

/// An open file that programs inherit.
fn inheritable(folder: &str) -> File {
    let path = Path::new(folder).join("held");
    fs::write(&path, "").unwrap();
    let file = File::open(path).unwrap();
    fcntl(&file, FcntlArg::F_SETFD(FdFlag::empty())).unwrap();
    file
}
