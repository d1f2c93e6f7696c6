//! What needs more than one crate to be tested: conformance cases, generated pages, house rules.
