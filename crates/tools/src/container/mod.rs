//! The `container` tool: runs an image to its end with docker, podman or Kubernetes.

mod cli;
mod docker;
mod kubernetes;
mod plan;
mod tool;

#[cfg(test)]
mod tests;

pub(crate) use tool::Container;
