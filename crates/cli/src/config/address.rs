//! Selects the server to use and the access token to send to it.
//!
//! Precedence: flags, environment, `noetl.toml` of the project, current context, configuration file of the user. A
//! token is sent only to a server that the user named, so a `noetl.toml` from a foreign project cannot obtain it.

use std::path::PathBuf;

use crate::args::Global;
use crate::config::contexts::{Context, Contexts};
use crate::config::environment::Environment;
use crate::problem::Problem;

/// One server, or several that share a store.
#[derive(Debug, Clone)]
pub(crate) struct Address {
    /// URLs, each as `http://host:port`.
    pub(crate) servers: Vec<String>,
    /// Access token to send.
    pub(crate) token: Option<Credential>,
    /// Name of the context, if the address comes from one.
    pub(crate) context: Option<String>,
}

/// An access token or the file that contains it.
#[derive(Debug, Clone)]
pub(crate) enum Credential {
    /// The token.
    Token(wire::Token),
    /// The file that contains the token.
    File(PathBuf),
}

/// All sources of a server address.
pub(crate) struct Named<'a> {
    pub(super) flags: &'a Global,
    pub(super) environment: &'a Environment,
    pub(super) project: Option<&'a str>,
    pub(super) own: Option<&'a str>,
    pub(super) contexts: &'a Contexts,
}

/// Returns the selected server, and whether the local store is used anyway.
pub(super) fn choose(named: &Named<'_>) -> Result<(Option<Address>, bool), Problem> {
    let variable = named.environment.get("NOETL_SERVER");
    let is_flag = !named.flags.server.is_empty();
    let is_local = named.flags.store.is_some()
        || (named.environment.get("NOETL_STORE").is_some() && !is_flag && variable.is_none());
    let address = if is_flag {
        Some(named.by_person(named.flags.server.clone()))
    } else if let Some(servers) = variable {
        Some(named.by_person(split(servers)))
    } else if let Some(servers) = named.project {
        Some(named.by_project(split(servers)))
    } else if let Some((name, context)) = named.contexts.current()? {
        Some(Address {
            context: Some(name.to_owned()),
            token: named.given().or_else(|| context.credential()),
            servers: context.servers.clone(),
        })
    } else {
        named.own.map(|servers| named.by_person(split(servers)))
    };
    Ok((address, is_local))
}

impl Named<'_> {
    /// Returns the token from `--token-file` or `NOETL_TOKEN`.
    fn given(&self) -> Option<Credential> {
        let file = self.flags.token_file.clone().map(Credential::File);
        let token = self.environment.get("NOETL_TOKEN");
        file.or_else(|| token.map(|text| Credential::Token(wire::Token::new(text))))
    }

    fn by_person(&self, servers: Vec<String>) -> Address {
        Address {
            token: self.given().or_else(|| self.kept(&servers)),
            servers,
            context: None,
        }
    }

    fn by_project(&self, servers: Vec<String>) -> Address {
        let file = self.flags.token_file.clone().map(Credential::File);
        Address {
            token: file.or_else(|| self.kept(&servers)),
            servers,
            context: None,
        }
    }

    /// Returns the token of the context that has exactly these servers.
    fn kept(&self, servers: &[String]) -> Option<Credential> {
        let same = |context: &&Context| context.servers == servers;
        self.contexts.contexts.values().find(same)?.credential()
    }
}

fn split(servers: &str) -> Vec<String> {
    servers
        .split(',')
        .map(|server| server.trim().to_owned())
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const MINE: &str = "http://mine:1";
    const OTHER: &str = "http://other:1";

    fn contexts(current: Option<&str>) -> Contexts {
        let context = Context {
            servers: vec![MINE.to_owned()],
            token: Some("kept".to_owned()),
            token_file: None,
        };
        Contexts {
            current: current.map(str::to_owned),
            contexts: [("mine".to_owned(), context)].into(),
        }
    }

    /// Returns the first server, whether a token is sent to it, and whether runs are local.
    fn chosen(
        (server, store): (&[&str], Option<&str>),
        variables: &[(&str, &str)],
        project: Option<&str>,
        contexts: &Contexts,
    ) -> (Option<String>, bool, bool) {
        let flags = Global {
            output: None,
            json: false,
            quiet: false,
            verbose: 0,
            color: None,
            store: store.map(PathBuf::from),
            server: server.iter().map(|server| (*server).to_owned()).collect(),
            token_file: None,
            tools: None,
        };
        let owned = |(name, value): &(&str, &str)| ((*name).to_owned(), (*value).to_owned());
        let named = Named {
            flags: &flags,
            environment: &Environment::of(variables.iter().map(owned)),
            project,
            own: None,
            contexts,
        };
        let (address, is_local) = choose(&named).unwrap();
        let token = address
            .as_ref()
            .is_some_and(|address| address.token.is_some());
        let server = address.map(|address| address.servers[0].clone());
        (server, token, is_local)
    }

    #[test]
    fn flags_come_before_variables_before_the_project_before_the_context() {
        let contexts = contexts(Some("mine"));
        let variable = [("NOETL_SERVER", "http://variable:1")];
        let server = |(server, _, _): (Option<String>, bool, bool)| server.unwrap();
        let flag = chosen(
            (&["http://flag:1"], None),
            &variable,
            Some(OTHER),
            &contexts,
        );
        assert_eq!(server(flag), "http://flag:1");
        let variable = chosen((&[], None), &variable, Some(OTHER), &contexts);
        assert_eq!(server(variable), "http://variable:1");
        assert_eq!(
            server(chosen((&[], None), &[], Some(OTHER), &contexts)),
            OTHER
        );
        assert_eq!(server(chosen((&[], None), &[], None, &contexts)), MINE);
    }

    #[test]
    fn a_store_that_is_named_is_used_whatever_the_context() {
        let contexts = contexts(Some("mine"));
        assert!(chosen((&[], Some("dir")), &[], None, &contexts).2);
        assert!(chosen((&[], None), &[("NOETL_STORE", "dir")], None, &contexts).2);
        let both = [("NOETL_STORE", "dir"), ("NOETL_SERVER", OTHER)];
        assert!(!chosen((&[], None), &both, None, &contexts).2);
        assert_eq!(
            chosen((&[], None), &[], None, &Contexts::default()).0,
            None,
            "runs are local if no server is configured"
        );
    }

    #[test]
    fn a_token_goes_only_to_a_server_that_the_person_named() {
        let (none, contexts) = (Contexts::default(), contexts(None));
        let token = [("NOETL_TOKEN", "secret")];
        assert!(chosen((&[OTHER], None), &token, None, &none).1);
        assert!(!chosen((&[], None), &token, Some(OTHER), &contexts).1);
        assert!(chosen((&[], None), &[], Some(MINE), &contexts).1);
        assert!(!chosen((&[OTHER], None), &[], None, &contexts).1);
    }
}
