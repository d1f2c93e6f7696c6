// A real OpenID Connect provider for scenarios. Any password is right; the login decides the groups.
import { generateKeyPairSync, randomUUID } from "node:crypto";
import Provider from "oidc-provider";

const groups = { ada: ["noetl-admins", "staff"], vera: ["staff"], norman: ["visitors"] };

function createSigningKey() {
  const { privateKey } = generateKeyPairSync("rsa", { modulusLength: 2048 });
  return { ...privateKey.export({ format: "jwk" }), kid: randomUUID(), use: "sig", alg: "RS256" };
}

/** Starts a provider with a new key; returns a function that stops it. */
export async function startIdentityProvider({ issuer, clientSecret, redirectUri }) {
  const provider = new Provider(issuer, {
    clients: [{ client_id: "noetl", client_secret: clientSecret, redirect_uris: [redirectUri] }],
    jwks: { keys: [createSigningKey()] },
    cookies: { keys: [randomUUID()] },
    claims: { openid: ["sub"], profile: ["preferred_username", "groups"] },
    // Claims of scopes are in the ID token, not only at the userinfo endpoint.
    conformIdTokenClaims: false,
    findAccount: (_context, login) => ({
      accountId: login,
      claims: () => ({ sub: login, preferred_username: login, groups: groups[login] ?? [] }),
    }),
  });
  const server = await new Promise((resolve, reject) => {
    const { hostname, port } = new URL(issuer);
    const listening = provider.listen(Number(port), hostname, () => resolve(listening));
    listening.on("error", reject);
  });
  return () =>
    new Promise((resolve) => {
      server.close(resolve);
      server.closeAllConnections();
    });
}

/** Signs in at the page of the provider. */
export async function signInAtProvider(page, login) {
  await page.fill("input[name=login]", login);
  await page.fill("input[name=password]", "any");
  await page.click("button[type=submit]");
  await page.click("button[type=submit] >> text=Continue");
}
