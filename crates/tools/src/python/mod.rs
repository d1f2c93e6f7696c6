//! `python`: user code in the user's own interpreter, kept warm between calls.

mod answer;
mod environments;
mod facts;
mod libs;
mod pool;
mod process;
pub(crate) mod request;
mod shut_in;
mod tool;
mod version;

#[cfg(test)]
mod tests;

pub(crate) use tool::Python;
