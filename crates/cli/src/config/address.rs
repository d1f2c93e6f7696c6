//! Selects the server to use and the access token to send to it.
//!
//! Precedence: flags, environment, `noetl.toml` of the project, current context, configuration file of the user. A
//! token is sent only to a server that the user named, so a `noetl.toml` from a foreign project cannot obtain it.

use std::path::PathBuf;

use crate::args::GlobalArgs;
use crate::cli_error::CliError;
use crate::config::contexts::{Contexts, ServerContext};
use crate::config::environment::Environment;
use crate::config::variables;

/// One server, or several that share a store.
#[derive(Debug, Clone)]
pub(crate) struct ServerAddress {
    /// URLs, each as `http://host:port`.
    pub(crate) servers: Vec<String>,
    /// Access token to send.
    pub(crate) token: Option<TokenSource>,
    /// Name of the context, if the address comes from one.
    pub(crate) context: Option<String>,
}

/// An access token or the file that contains it.
#[derive(Debug, Clone)]
pub(crate) enum TokenSource {
    /// The token.
    Token(wire::AccessToken),
    /// The file that contains the token.
    File(PathBuf),
}

/// All sources of a server address.
pub(crate) struct AddressSources<'a> {
    pub(super) flags: &'a GlobalArgs,
    pub(super) environment: &'a Environment,
    pub(super) project: Option<&'a str>,
    pub(super) user: Option<&'a str>,
    pub(super) contexts: &'a Contexts,
}

/// Returns the selected server, and whether the local store is used anyway.
pub(super) fn choose_address(sources: &AddressSources<'_>) -> Result<(Option<ServerAddress>, bool), CliError> {
    let variable = sources.environment.get(variables::SERVER);
    let is_flag = !sources.flags.server.is_empty();
    let is_local = sources.flags.store.is_some()
        || (sources.environment.get(variables::STORE).is_some() && !is_flag && variable.is_none());
    let address = if is_flag {
        Some(sources.user_address(sources.flags.server.clone()))
    } else if let Some(servers) = variable {
        Some(sources.user_address(split_servers(servers)))
    } else if let Some(servers) = sources.project {
        Some(sources.project_address(split_servers(servers)))
    } else if let Some((name, context)) = sources.contexts.current()? {
        Some(ServerAddress {
            context: Some(name.to_owned()),
            token: sources.explicit_token().or_else(|| context.token_source()),
            servers: context.servers.clone(),
        })
    } else {
        sources.user.map(|servers| sources.user_address(split_servers(servers)))
    };
    Ok((address, is_local))
}

impl AddressSources<'_> {
    /// Returns the token from `--token-file` or `NOETL_TOKEN`.
    fn explicit_token(&self) -> Option<TokenSource> {
        let file = self.flags.token_file.clone().map(TokenSource::File);
        let token = self.environment.get(variables::TOKEN);
        file.or_else(|| token.map(|text| TokenSource::Token(wire::AccessToken::new(text))))
    }

    fn user_address(&self, servers: Vec<String>) -> ServerAddress {
        ServerAddress {
            token: self.explicit_token().or_else(|| self.context_token(&servers)),
            servers,
            context: None,
        }
    }

    fn project_address(&self, servers: Vec<String>) -> ServerAddress {
        let file = self.flags.token_file.clone().map(TokenSource::File);
        ServerAddress {
            token: file.or_else(|| self.context_token(&servers)),
            servers,
            context: None,
        }
    }

    /// Returns the token of the context that has exactly these servers.
    fn context_token(&self, servers: &[String]) -> Option<TokenSource> {
        let same = |context: &&ServerContext| context.servers == servers;
        self.contexts.contexts.values().find(same)?.token_source()
    }
}

fn split_servers(servers: &str) -> Vec<String> {
    servers.split(',').map(|server| server.trim().to_owned()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const MINE: &str = "http://mine:1";
    const OTHER: &str = "http://other:1";

    fn contexts(current: Option<&str>) -> Contexts {
        let context = ServerContext {
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
        server: &[&str],
        store: Option<&str>,
        variables: &[(&str, &str)],
        project: Option<&str>,
        contexts: &Contexts,
    ) -> (Option<String>, bool, bool) {
        let flags = GlobalArgs {
            store: store.map(PathBuf::from),
            server: server.iter().map(|server| (*server).to_owned()).collect(),
            ..GlobalArgs::default()
        };
        let owned = |(name, value): &(&str, &str)| ((*name).to_owned(), (*value).to_owned());
        let sources = AddressSources {
            flags: &flags,
            environment: &Environment::from_variables(variables.iter().map(owned)),
            project,
            user: None,
            contexts,
        };
        let (address, is_local) = choose_address(&sources).unwrap();
        let token = address.as_ref().is_some_and(|address| address.token.is_some());
        let server = address.map(|address| address.servers[0].clone());
        (server, token, is_local)
    }

    #[test]
    fn flags_come_before_variables_before_the_project_before_the_context() {
        let contexts = contexts(Some("mine"));
        let variable = [("NOETL_SERVER", "http://variable:1")];
        let server = |(server, _, _): (Option<String>, bool, bool)| server.unwrap();
        let flag = chosen(&["http://flag:1"], None, &variable, Some(OTHER), &contexts);
        assert_eq!(server(flag), "http://flag:1");
        let variable = chosen(&[], None, &variable, Some(OTHER), &contexts);
        assert_eq!(server(variable), "http://variable:1");
        assert_eq!(server(chosen(&[], None, &[], Some(OTHER), &contexts)), OTHER);
        assert_eq!(server(chosen(&[], None, &[], None, &contexts)), MINE);
    }

    #[test]
    fn a_store_that_is_named_is_used_whatever_the_context() {
        let contexts = contexts(Some("mine"));
        assert!(chosen(&[], Some("dir"), &[], None, &contexts).2);
        assert!(chosen(&[], None, &[("NOETL_STORE", "dir")], None, &contexts).2);
        let both = [("NOETL_STORE", "dir"), ("NOETL_SERVER", OTHER)];
        assert!(!chosen(&[], None, &both, None, &contexts).2);
        assert_eq!(
            chosen(&[], None, &[], None, &Contexts::default()).0,
            None,
            "runs are local if no server is configured"
        );
    }

    #[test]
    fn a_token_is_sent_only_to_a_server_that_the_user_named() {
        let (none, contexts) = (Contexts::default(), contexts(None));
        let token = [("NOETL_TOKEN", "secret")];
        assert!(chosen(&[OTHER], None, &token, None, &none).1);
        assert!(!chosen(&[], None, &token, Some(OTHER), &contexts).1);
        assert!(chosen(&[], None, &[], Some(MINE), &contexts).1);
        assert!(!chosen(&[OTHER], None, &[], None, &contexts).1);
    }
}
