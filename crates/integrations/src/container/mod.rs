//! The `container` tool: runs an image to its end with docker, podman or Kubernetes.

mod cli;
mod docker;
mod kubernetes;
mod spec;
mod tool;

#[cfg(test)]
mod tests;

pub(crate) use tool::ContainerTool;
