//! The SQLite store beside bare SQLite on the same disk.

pub(crate) mod processes;
mod rates;
mod watches;

pub(crate) fn measure() {
    let dir = tempfile::tempdir_in(std::env::current_dir().unwrap()).unwrap();
    println!(
        "SQLite {}, full sync, values of 256 bytes, in a directory beside the project\n",
        rusqlite::version()
    );
    rates::measure(dir.path());
    watches::measure(dir.path());
    processes::measure(dir.path());
}
