//! What the worker does, seen from a tiny server.
