//! Which playbooks name a credential, for the list of credentials.
//!
//! A playbook is parsed once for each text; its names are then cached by the hash of the text. Only playbooks whose text
//! contains the name of a credential are parsed.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard};

use language::playbook::credentials::CredentialUses;
use language::playbook::{KeychainEntry, KeychainKind, Playbook, parse};
use language::template::Tree;
use model::cache::BoundedCache;
use model::id::PlaybookHash;
use store::CatalogEntry;
use wire::api::{CredentialEntry, CredentialList, CredentialUse, ListedCredential};

use crate::Server;
use crate::keychain::entries::names_read_by;
use crate::keychain::error::Error;

/// Maximum number of playbooks that a request examines.
const PLAYBOOKS_MAX: usize = 10_000;
/// Maximum number of playbooks that a request parses; the next requests parse the others.
const PARSED_MAX: usize = 200;
/// Maximum number of cached names; a playbook without names counts as one.
const CACHED_NAMES_MAX: u64 = 65_536;

/// Fields of a keychain entry of the kind `credential` that name the credential, in order of precedence.
const NAME_FIELDS: [&str; 4] = ["credential", "ref", "key", "auth"];

/// The names of credentials in playbooks, by the hash of the text.
pub(super) struct CredentialUseIndex {
    names: Mutex<BoundedCache<PlaybookHash, Arc<BTreeSet<String>>>>,
}

impl Default for CredentialUseIndex {
    fn default() -> Self {
        Self {
            names: Mutex::new(BoundedCache::new(CACHED_NAMES_MAX)),
        }
    }
}

/// The playbooks that name each credential.
struct UsesByName {
    uses: BTreeMap<String, Vec<CredentialUse>>,
    is_complete: bool,
}

impl CredentialUseIndex {
    fn entries(&self) -> MutexGuard<'_, BoundedCache<PlaybookHash, Arc<BTreeSet<String>>>> {
        self.names.lock().expect("no holder of the index lock panics")
    }

    /// Finds the uses of these credentials in the latest versions of playbooks.
    fn find(&self, credentials: &[CredentialEntry], catalog: &[CatalogEntry]) -> UsesByName {
        let mut by_name = UsesByName {
            uses: BTreeMap::new(),
            is_complete: catalog.len() <= PLAYBOOKS_MAX,
        };
        let mut parsed = 0;
        for playbook in catalog.iter().take(PLAYBOOKS_MAX) {
            if !credentials
                .iter()
                .any(|credential| playbook.text.contains(&credential.name))
            {
                continue;
            }
            let cached = self.entries().get(&playbook.hash);
            let names = match cached {
                Some(names) => names,
                None if parsed == PARSED_MAX => {
                    by_name.is_complete = false;
                    continue;
                }
                None => {
                    parsed += 1;
                    self.parse(playbook)
                }
            };
            for name in names.iter() {
                let uses = by_name.uses.entry(name.clone()).or_default();
                uses.push(CredentialUse {
                    path: playbook.path.to_string(),
                    version: playbook.version,
                });
            }
        }
        by_name
    }

    fn parse(&self, entry: &CatalogEntry) -> Arc<BTreeSet<String>> {
        let playbook = parse(entry.path.as_str(), entry.text.as_bytes()).playbook;
        let names = Arc::new(playbook.map(|playbook| credential_names(&playbook)).unwrap_or_default());
        self.entries()
            .insert(entry.hash.clone(), names.clone(), 1 + names.len() as u64);
        names
    }
}

/// The credentials that a playbook names: in steps, and in the keychain. Its own entries are not credentials.
fn credential_names(playbook: &Playbook) -> BTreeSet<String> {
    let mut names = CredentialUses::names_in_playbook(playbook);
    for entry in &playbook.keychain {
        names.extend(names_read_by(entry));
    }
    names.retain(|name| !playbook.keychain.iter().any(|entry| entry.name == *name.as_str()));
    // An entry may have the name of its credential.
    names.extend(playbook.keychain.iter().filter_map(entry_credential));
    names
}

/// The credential that an entry stands for, if its name is not a template.
fn entry_credential(entry: &KeychainEntry) -> Option<String> {
    if entry.kind != KeychainKind::Credential {
        return None;
    }
    let field = NAME_FIELDS.iter().find_map(|field| entry.fields.get(*field));
    match field {
        None => Some(entry.name.to_string()),
        Some(Tree::Literal(value)) => value.as_str().map(str::to_owned),
        Some(_) => None,
    }
}

impl Server {
    /// Lists all credentials by name, with the playbooks that use them, without their values.
    pub(crate) async fn credentials_with_uses(&self) -> Result<CredentialList, Error> {
        let credentials = self.credentials().await?;
        if credentials.is_empty() {
            let credentials = Vec::new();
            return Ok(CredentialList {
                credentials,
                is_used_by_complete: true,
            });
        }
        let catalog = self.shared.store.catalog().await?;
        let shared = Arc::clone(&self.shared);
        // Parsing may take a second, which must not block other requests.
        let list = tokio::task::spawn_blocking(move || {
            let mut by_name = shared.keychain.uses.find(&credentials, &catalog);
            let with_uses = |entry: CredentialEntry| ListedCredential {
                used_by: by_name.uses.remove(&entry.name).unwrap_or_default(),
                entry,
            };
            CredentialList {
                credentials: credentials.into_iter().map(with_uses).collect(),
                is_used_by_complete: by_name.is_complete,
            }
        });
        Ok(list.await.expect("parsing a playbook does not panic"))
    }
}

#[cfg(test)]
mod tests {
    use model::time::Time;

    use super::*;

    const PLAYBOOK: &str = "
apiVersion: noetl.io/v2
kind: Playbook
metadata: { name: demo, path: demo/load }
keychain:
  - { name: orders, kind: credential, credential: orders_api }
  - { name: vaulted, kind: credential }
workflow:
  - step: start
    tool:
      kind: http
      url: https://example.com
      auth: orders
      headers: { X-Key: \"{{ keychain.shop_key.value }}\" }
  - step: rows
    tool:
      kind: postgres
      auth: orders_db
      command: SELECT 1
";

    fn catalog_entry(path: &str, text: &str) -> CatalogEntry {
        CatalogEntry {
            path: path.into(),
            version: 3,
            hash: PlaybookHash::from_text(text),
            text: text.into(),
            registered_at: Time(0),
        }
    }

    fn credential(name: &str) -> CredentialEntry {
        CredentialEntry {
            name: name.to_owned(),
            kind: "bearer".to_owned(),
            version: 1,
            created_at: Time(0),
            updated_at: Time(0),
            last_used_at: None,
        }
    }

    #[test]
    fn names_are_found_in_steps_templates_and_the_keychain() {
        let playbook = parse("demo", PLAYBOOK.as_bytes())
            .playbook
            .expect("the playbook is valid");
        let names: Vec<String> = credential_names(&playbook).into_iter().collect();
        assert_eq!(names, ["orders_api", "orders_db", "shop_key", "vaulted"]);
    }

    #[test]
    fn a_request_parses_a_bounded_number_of_playbooks_and_the_next_one_continues() {
        let index = CredentialUseIndex::default();
        let text = |n: usize| format!("{PLAYBOOK}# {n}");
        let catalog: Vec<CatalogEntry> = (0..=PARSED_MAX)
            .map(|n| catalog_entry(&format!("p{n}"), &text(n)))
            .collect();
        let credentials = [credential("orders_db")];
        let first = index.find(&credentials, &catalog);
        assert!(!first.is_complete);
        assert_eq!(first.uses["orders_db"].len(), PARSED_MAX);
        let second = index.find(&credentials, &catalog);
        assert!(second.is_complete);
        assert_eq!(second.uses["orders_db"].len(), PARSED_MAX + 1);
    }

    #[test]
    fn a_playbook_that_contains_no_name_of_a_credential_is_not_parsed() {
        let index = CredentialUseIndex::default();
        let by_name = index.find(&[credential("other")], &[catalog_entry("p", PLAYBOOK)]);
        assert!(by_name.uses.is_empty() && by_name.is_complete);
        assert!(index.entries().get(&PlaybookHash::from_text(PLAYBOOK)).is_none());
    }
}
