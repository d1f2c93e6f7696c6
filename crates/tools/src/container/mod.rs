//! `container`: an image run to its end, by docker, podman or Kubernetes.

mod cli;
mod docker;
mod kubernetes;
mod plan;
mod tool;

#[cfg(test)]
mod tests;

pub(crate) use tool::Container;
