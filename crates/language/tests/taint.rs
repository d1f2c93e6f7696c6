//! Taint follows the origin: the result of an expression that reads a secret is marked, and its masked form reveals
//! nothing.

#![expect(clippy::unwrap_used, reason = "a failed expectation fails the test")]

use language::template::{LazyValue, Piece, Rendered, Scope, Template, Tree};
use model::source::Span;
use serde_json::{Value, json};

const TOKEN: &str = "Canary-7F3a-9E1d";

fn scope() -> Scope {
    let keychain = json!({
        "api": {"token": TOKEN, "pin": 4_711_000, "user": "postgres", "parts": ["first-part", "second-part"]},
    });
    Scope {
        keychain: Some(LazyValue::new(keychain)),
        workload: LazyValue::new(json!({"name": "plain-name"})),
        reveals_secrets: true,
        ..Scope::default()
    }
}

fn template(source: &str) -> Template {
    Template::parse(source, Span::default()).unwrap()
}

fn render(source: &str) -> Rendered {
    template(source).render(&scope()).unwrap()
}

#[test]
fn whatever_an_expression_makes_of_a_secret_is_shown_as_stars() {
    for expression in [
        "keychain.api.token | lower",
        "keychain.api.token | upper",
        "keychain.api.token | title",
        "keychain.api.token | trim",
        "keychain.api.token | reverse",
        "keychain.api.token | replace('-', '_')",
        "keychain.api.token | truncate(9)",
        "keychain.api.token | b64encode",
        "keychain.api.token | urlencode",
        "keychain.api.token | hash",
        "keychain.api.token | tojson",
        "keychain.api.token | length",
        "keychain.api.token | regex_replace('[0-9]', 'x')",
        "keychain.api.token[3:12]",
        "keychain.api.token[::-1]",
        "keychain.api.token.split('-')",
        "keychain.api.token.strip('C')",
        "keychain.api.token | list",
        "'a' ~ keychain.api.token ~ workload.name",
        "keychain.api.token + workload.name",
        "keychain.api.token * 2",
        "'%s!' | format(keychain.api.token)",
        "[keychain.api.token, 1] | join('-')",
        "['a', keychain.api.token] | map('lower') | list",
        "[keychain.api.token] | first | center(30)",
        "{'a': keychain.api.token} | to_yaml",
        "keychain.api.parts | last",
        "keychain.api.parts | join",
        "keychain.api | items | list",
        "keychain.api.values() | list | tojson",
        "keychain.api.pin + 1",
        "(keychain.api.pin // 7) | string",
        "keychain.api.token == 'x'",
        "workload.name if keychain.api.token > 'B' else 1",
        "keychain.api.user | upper",
    ] {
        let rendered = render(&format!("{{{{ {expression} }}}}"));
        assert!(rendered.is_tainted(), "{expression}");
        assert_eq!(rendered.masked(), json!("***"), "{expression}");
    }
}

#[test]
fn a_text_around_a_secret_is_shown_and_the_secret_is_not() {
    let rendered = render("Bearer {{ keychain.api.token | lower }} of {{ workload.name }}!");
    assert_eq!(rendered.masked(), json!("Bearer *** of plain-name!"));
    assert_eq!(rendered.secrets, [TOKEN.to_lowercase()]);
    let statement = "{% set t = keychain.api.token | lower %}a {{ t }} b";
    assert_eq!(render(statement).masked(), json!("***"));
    let branch = "{% if keychain.api.token == 'x' %}yes{% else %}no{% endif %}";
    assert_eq!(render(branch).masked(), json!("***"));
}

#[test]
fn a_credential_used_whole_is_shown_with_its_keys() {
    let rendered = render("{{ keychain.api }}");
    let parts = json!(["***", "***"]);
    let expected = json!({"token": "***", "pin": "***", "user": "***", "parts": parts});
    assert_eq!(rendered.masked(), expected);
}

#[test]
fn texts_are_secrets_unless_the_author_wrote_them_or_they_are_addresses_or_users() {
    let secrets = |source: &str| render(source).secrets;
    assert_eq!(secrets("{{ keychain.api.token[:8] }}"), [&TOKEN[..8]]);
    assert_eq!(secrets("{{ keychain.api.pin + 1 }}"), ["4711001"]);
    assert!(secrets("{{ 'production' if keychain.api.token else 'x' }}").is_empty());
    assert!(secrets("{{ keychain.api.user | upper }}").is_empty());
    assert!(secrets("x{{ keychain.api.user }}").is_empty());
    assert!(secrets("{{ workload.name }}").is_empty());
    let pair = json!({"a": TOKEN.to_lowercase()});
    assert_eq!(render("{{ {'a': keychain.api.token | lower} }}").value, pair);
    assert_eq!(
        secrets("{{ {'a': keychain.api.token | lower} }}"),
        [TOKEN.to_lowercase()]
    );
}

#[test]
fn data_that_was_rendered_keeps_the_taint_of_its_parts() {
    let entries = vec![
        (
            "derived".to_owned(),
            Tree::Template(template("{{ keychain.api.token | lower }}")),
        ),
        ("plain".to_owned(), Tree::Literal(json!({"n": [1, 2]}))),
        (
            "list".to_owned(),
            Tree::List(vec![
                Tree::Literal(json!("first")),
                Tree::Template(template("{{ keychain.api.token }}")),
            ]),
        ),
    ];
    let rendered = Tree::Map(entries).render(&scope()).unwrap();
    let expected = json!({"derived": "***", "plain": {"n": [1, 2]}, "list": ["first", "***"]});
    assert_eq!(rendered.masked(), expected);
    let input = LazyValue::with_taint(rendered.value, rendered.taint);
    assert_eq!(input.json()["list"], json!(["first", TOKEN]));
    assert!(!format!("{input:?}").to_lowercase().contains("canary"));
    let scope = Scope {
        input,
        keychain: None,
        ..scope()
    };
    let render = |source: &str| template(source).render(&scope).unwrap();
    let later = render("{{ input.derived | upper }}");
    assert_eq!(later.value, json!(TOKEN.to_uppercase()));
    assert_eq!(later.masked(), json!("***"));
    assert_eq!(later.secrets, [TOKEN.to_uppercase()]);
    assert!(render("{{ derived }}").is_tainted());
    assert!(render("{{ input | tojson }}").is_tainted());
    assert!(!render("{{ input.plain.n }}").is_tainted());
    assert!(!render("{{ list[0] }}").is_tainted());
}

#[test]
fn pieces_are_shown_one_by_one() {
    let source = "select {{ keychain.api.token | lower | raw_sql }} from {{ workload.name | ident }} where a = {{ keychain.api.pin }}";
    let rendered = template(source).rendered_pieces(&scope()).unwrap();
    let text = |text: &str| Piece::Text(text.to_owned());
    let masked = [
        text("select "),
        Piece::Raw("***".to_owned()),
        text(" from "),
        Piece::Ident(json!("plain-name")),
        text(" where a = "),
        Piece::Value(json!("***")),
    ];
    assert_eq!(rendered.masked.as_deref(), Some(&masked[..]));
    assert_eq!(rendered.secrets, [TOKEN.to_lowercase(), "4711000".to_owned()]);
    let plain = template("select {{ workload.name }}")
        .rendered_pieces(&scope())
        .unwrap();
    assert_eq!(plain.masked, None);
    let branch = "{% if keychain.api.pin > 1 %}a{% else %}b{% endif %}";
    let branch = template(branch).rendered_pieces(&scope()).unwrap();
    assert_eq!(branch.masked, Some(vec![text("***")]));
    let token = template("{{ keychain.api.token }}").rendered_pieces(&scope()).unwrap();
    assert_eq!(token.masked, Some(vec![Piece::Value(Value::from("***"))]));
}
