//! Prints the statements that make the store in a schema, for a database administrator to run:
//! `cargo run -p tenure-postgres --example ddl -- tenure`.

#![allow(clippy::print_stdout, reason = "printing is what this program is for")]

fn main() -> Result<(), tenure_store::StoreError> {
    let schema = std::env::args().nth(1).unwrap_or_else(|| "tenure".to_owned());
    println!("{}", tenure_postgres::ddl(&schema)?);
    Ok(())
}
