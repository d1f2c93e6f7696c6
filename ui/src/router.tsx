// The pages and their validated search parameters. All state of a view is in the URL.
import type { QueryClient } from "@tanstack/react-query";
import { createRootRouteWithContext, createRoute, createRouter } from "@tanstack/react-router";
import { baseUrl } from "./api/client";
import { HomePage } from "./home/HomePage";
import { readRunFilter } from "./lib/filter";
import { signInPath } from "./lib/signIn";
import { omitUndefined, parseSearch, readNumber, readText, readWord, stringifySearch } from "./lib/search";
import { PlaybookPage } from "./playbooks/PlaybookPage";
import { PlaybooksPage } from "./playbooks/PlaybooksPage";
import { RunPage } from "./run/RunPage";
import { readRunView } from "./run/runView";
import { RunsPage } from "./runs/RunsPage";
import { NotFound } from "./shell/NotFound";
import { PageError } from "./shell/PageError";
import { Shell } from "./shell/Shell";
import { SignedInAlready } from "./shell/SignIn";

const rootRoute = createRootRouteWithContext<{ client: QueryClient }>()({
  component: Shell,
  notFoundComponent: NotFound,
  errorComponent: PageError,
});

const homeRoute = createRoute({ getParentRoute: () => rootRoute, path: "/", component: HomePage });

const runsRoute = createRoute({
  getParentRoute: () => rootRoute,
  path: "/runs",
  component: RunsPage,
  validateSearch: (search: Record<string, unknown>) => ({
    ...readRunFilter(search),
    ...omitUndefined({ row: readText(search["row"]) }),
  }),
});

const runRoute = createRoute({
  getParentRoute: () => rootRoute,
  path: "/runs/$id",
  component: RunPage,
  validateSearch: readRunView,
});

const playbooksRoute = createRoute({
  getParentRoute: () => rootRoute,
  path: "/playbooks",
  component: PlaybooksPage,
  validateSearch: (search: Record<string, unknown>) =>
    omitUndefined({ q: readText(search["q"]), dialog: readWord(search["dialog"], ["register"]) }),
});

const playbookRoute = createRoute({
  getParentRoute: () => rootRoute,
  path: "/playbooks/$path",
  component: PlaybookPage,
  validateSearch: (search: Record<string, unknown>) =>
    omitUndefined({
      tab: readWord(search["tab"], ["source", "runs"]),
      version: readNumber(search["version"]),
      dialog: readWord(search["dialog"], ["run"]),
    }),
});

const signInRoute = createRoute({
  getParentRoute: () => rootRoute,
  path: signInPath,
  component: SignedInAlready,
  validateSearch: (search: Record<string, unknown>) =>
    omitUndefined({ failure: readText(search["failure"]), return_to: readText(search["return_to"]) }),
});

export function createAppRouter(client: QueryClient) {
  return createRouter({
    routeTree: rootRoute.addChildren([homeRoute, runsRoute, runRoute, playbooksRoute, playbookRoute, signInRoute]),
    basepath: baseUrl.pathname,
    context: { client },
    parseSearch,
    stringifySearch,
    defaultErrorComponent: PageError,
    defaultNotFoundComponent: NotFound,
  });
}

declare module "@tanstack/react-router" {
  interface Register {
    router: ReturnType<typeof createAppRouter>;
  }
}
