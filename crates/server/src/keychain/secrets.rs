//! Resolves names for a worker that has a live claim, if the command's step declares them.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use language::template::{LazyValue, Scope};
use model::command::Command;
use serde_json::json;
use store::AuditOutcome;
use wire::api::SecretsRequest;
use wire::{ResolvedSecret, SecretValue};

use crate::access_tokens::Actor;
use crate::keychain::cache::{CachedValue, EntryOwner};
use crate::keychain::credentials::AuditRecord;
use crate::keychain::declared::DeclaredSecrets;
use crate::keychain::entries::EntryResolver;
use crate::keychain::error::Error;
use crate::{ServerShared, loading};

/// Maximum validity of a value in a worker, so that a changed credential takes effect within this time.
const VALID_MAX: Duration = Duration::from_secs(60);
/// Maximum number of names per request.
const NAMES_MAX: usize = 64;
/// Replaces an undeclared name in the audit log, because the name may be anything, even a secret.
const UNDECLARED: &str = "(undeclared name)";

/// Why a worker gets no secrets.
pub(crate) enum SecretsError {
    /// Its lease has expired.
    Fenced,
    /// The credential cannot be resolved.
    Keychain(Error),
    /// The server failed.
    Failed(crate::error::Error),
}

impl From<Error> for SecretsError {
    fn from(error: Error) -> Self {
        match error {
            Error::Store(error) => Self::Failed(error.into()),
            error => Self::Keychain(error),
        }
    }
}

impl From<store::Error> for SecretsError {
    fn from(error: store::Error) -> Self {
        Self::Failed(error.into())
    }
}

impl From<crate::error::Error> for SecretsError {
    fn from(error: crate::error::Error) -> Self {
        Self::Failed(error)
    }
}

/// Resolves the names that a command needs.
pub(crate) async fn resolve_secrets(
    shared: &ServerShared,
    request: &SecretsRequest,
) -> Result<Vec<ResolvedSecret>, SecretsError> {
    let command = claimed_command(shared, request).await?;
    let net = shared.catalog.net(&command.playbook).await?;
    let declared = shared.keychain.declared_secrets(&net.playbook);
    check_declared(shared, request, &command, &declared).await?;
    let execution = command.id.execution;
    let row = shared.store.execution(execution).await?;
    let row = row.ok_or(SecretsError::Fenced)?;
    let owner = EntryOwner {
        execution,
        parent: row.parent,
        path: row.path.to_string(),
    };
    let workload = needs_workload(&declared, &request.names);
    let scope = if workload {
        load_command_scope(shared, &command).await?
    } else {
        Scope::default()
    };
    let mut resolving = EntryResolver::new(&shared.keychain, declared, owner, scope);
    let mut secrets = Vec::with_capacity(request.names.len());
    for name in &request.names {
        let resolved = resolving.resolve(name).await;
        audit_use(shared, request, name, &resolved).await?;
        secrets.push(to_resolved_secret(shared, name, resolved?));
    }
    for name in &resolving.opened_credentials {
        shared.store.sealed_store().touch_credential(name).await?;
    }
    Ok(secrets)
}

/// Entries may depend on the inputs of the execution; credentials do not.
fn needs_workload(declared: &DeclaredSecrets, names: &[String]) -> bool {
    names.iter().any(|name| declared.entry(name).is_some())
}

fn to_resolved_secret(shared: &ServerShared, name: &str, cached: CachedValue) -> ResolvedSecret {
    let now = shared.store.now();
    let remaining = cached.expires_at.map(|expires| expires.since(now));
    ResolvedSecret {
        name: name.to_owned(),
        value: SecretValue::new(cached.value),
        valid_for: remaining.unwrap_or(VALID_MAX).min(VALID_MAX),
    }
}

/// Returns the command if the worker holds it under this claim.
async fn claimed_command(shared: &ServerShared, request: &SecretsRequest) -> Result<Command, SecretsError> {
    let claims = shared.store.worker_claims(&request.worker).await?;
    let is_claimed = claims.iter().any(|claims| {
        claims.claim.command == request.command
            && claims.claim.lease_epoch == request.lease_epoch
            && !claims.is_cancelling
    });
    if !is_claimed {
        return Err(SecretsError::Fenced);
    }
    if request.names.len() > NAMES_MAX {
        let message = format!("more than {NAMES_MAX} credentials requested at once");
        return Err(Error::Invalid(message).into());
    }
    let open = shared.store.open_commands(request.command.execution).await?;
    let mut commands = open.into_iter().map(|open| open.command);
    let command = commands.find(|command| command.id == request.command);
    command.ok_or(SecretsError::Fenced)
}

/// The data that templates of the command's step see on the server.
async fn load_command_scope(shared: &ServerShared, command: &Command) -> Result<Scope, SecretsError> {
    let state = loading::load_state(&*shared.store, command.id.execution).await?;
    let state = state.ok_or(SecretsError::Fenced)?;
    let ctx = state.ctx_of(&command.run);
    Ok(Scope {
        workload: LazyValue::from_raw(state.workload.clone()),
        ctx: LazyValue::new(serde_json::Value::Object((**ctx).clone())),
        ..Scope::default()
    })
}

async fn check_declared(
    shared: &ServerShared,
    request: &SecretsRequest,
    command: &Command,
    declared: &Arc<DeclaredSecrets>,
) -> Result<(), SecretsError> {
    let step = &command.run.step;
    let unknown: BTreeSet<&String> = request
        .names
        .iter()
        .filter(|name| !declared.is_declared(step, name))
        .collect();
    if unknown.is_empty() {
        return Ok(());
    }
    let scope = if declared.has_rendered_names(step) {
        load_command_scope(shared, command).await?
    } else {
        Scope::default()
    };
    for name in unknown {
        if declared.is_rendered_name(step, name, &scope) {
            continue;
        }
        let refusal = Err(Error::NotDeclared { step: step.to_string() });
        audit_use(shared, request, UNDECLARED, &refusal).await?;
        return refusal.map_err(SecretsError::from);
    }
    Ok(())
}

/// Records in the audit log that a credential was returned, or why not.
async fn audit_use<T>(
    shared: &ServerShared,
    request: &SecretsRequest,
    name: &str,
    result: &Result<T, Error>,
) -> Result<(), SecretsError> {
    let (outcome, code) = match result {
        Ok(_) => (AuditOutcome::Done, None),
        Err(error @ Error::NotDeclared { .. }) => (AuditOutcome::Denied, Some(error.code())),
        Err(error) => (AuditOutcome::Failed, Some(error.code())),
    };
    let record = AuditRecord {
        action: "credential.use",
        resource: name,
        outcome,
        detail: Some(json!({"command": request.command.to_string(), "code": code})),
    };
    let actor = Actor {
        name: format!("worker {}", request.worker.0),
        source: None,
    };
    shared.keychain.audit(actor, record).await?;
    Ok(())
}
