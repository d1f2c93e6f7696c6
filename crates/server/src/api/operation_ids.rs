//! Operation IDs of the API document. Client generators derive function names from them, so each must be unique.
//!
//! Input: the document with all routes. Output: the same document, where the ID of each operation is its method and path:
//! `GET /api/executions/{id}/events` becomes `get_executions_by_id_events`. Routes outside `/api` get the word `server`.

use utoipa::openapi::OpenApi;
use utoipa::openapi::path::{Operation, PathItem};

/// Sets the ID of each operation.
pub(crate) fn set_operation_ids(document: &mut OpenApi) {
    for (path, item) in &mut document.paths.paths {
        for (method, operation) in operations(item) {
            operation.operation_id = Some(operation_id(method, path));
        }
    }
}

/// The operations of a path with their methods.
fn operations(item: &mut PathItem) -> impl Iterator<Item = (&'static str, &mut Operation)> {
    let operations = [
        ("get", &mut item.get),
        ("put", &mut item.put),
        ("post", &mut item.post),
        ("delete", &mut item.delete),
        ("patch", &mut item.patch),
    ];
    operations
        .into_iter()
        .filter_map(|(method, operation)| Some((method, operation.as_mut()?)))
}

fn operation_id(method: &str, path: &str) -> String {
    // `/health` and `/api/health` are two operations.
    let (mut id, path) = match path.strip_prefix("/api/") {
        Some(path) => (method.to_owned(), path),
        None => (format!("{method}_server"), path),
    };
    for segment in path.split('/').filter(|segment| !segment.is_empty()) {
        id.push('_');
        match segment.strip_prefix('{').and_then(|name| name.strip_suffix('}')) {
            Some(name) => id.push_str(&format!("by_{name}")),
            None => id.push_str(&segment.replace(|c: char| !c.is_ascii_alphanumeric(), "_")),
        }
    }
    id
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use serde_json::Value;

    use super::*;
    use crate::api::router;

    #[test]
    fn an_id_names_the_method_and_the_path() {
        let id = operation_id("get", "/api/executions/{id}/cancellation-check");
        assert_eq!(id, "get_executions_by_id_cancellation_check");
        assert_eq!(operation_id("get", "/openapi.json"), "get_server_openapi_json");
    }

    #[test]
    fn each_operation_has_its_own_id() {
        let document: Value = serde_json::from_str(router::document()).unwrap();
        let paths = document["paths"].as_object().unwrap().values();
        let ids: Vec<&Value> = paths
            .flat_map(|item| item.as_object().unwrap().values())
            .map(|operation| &operation["operationId"])
            .collect();
        assert!(ids.len() > 50 && ids.iter().all(|id| id.is_string()));
        let unique: BTreeSet<&str> = ids.iter().filter_map(|id| id.as_str()).collect();
        assert_eq!(unique.len(), ids.len());
    }
}
