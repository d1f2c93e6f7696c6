//! Bodies and task logs keep their contracts in Postgres and through a server, and what only a network can get wrong.

mod database;
mod elsewhere;
mod faults;
mod served;
