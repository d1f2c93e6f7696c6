// The pages and their validated search parameters. All state of a view is in the URL.
import type { QueryClient } from "@tanstack/react-query";
import { createRootRouteWithContext, createRoute, createRouter, lazyRouteComponent } from "@tanstack/react-router";
import { baseUrl } from "./api/client";
import { CredentialsPage } from "./credentials/CredentialsPage";
import { HomePage } from "./home/HomePage";
import { InboxPage } from "./inbox/InboxPage";
import { readInboxView } from "./inbox/waitView";
import { readRunFilter } from "./lib/filter";
import { signInPath } from "./lib/signIn";
import { omitUndefined, parseSearch, readNumber, readText, readWord, stringifySearch } from "./lib/search";
import { PlaybookPage } from "./playbooks/PlaybookPage";
import { PlaybooksPage } from "./playbooks/PlaybooksPage";
import { readPlaybookView } from "./playbooks/playbookView";
import { RunPage } from "./run/RunPage";
import { readRunView } from "./run/runView";
import { RunsPage } from "./runs/RunsPage";
import { NotFound } from "./shell/NotFound";
import { PageError } from "./shell/PageError";
import { Shell } from "./shell/Shell";
import { SystemPage, systemTabs } from "./system/SystemPage";
import { WorkersPage } from "./workers/WorkersPage";
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

const inboxRoute = createRoute({
  getParentRoute: () => rootRoute,
  path: "/inbox",
  component: InboxPage,
  validateSearch: readInboxView,
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
  validateSearch: readPlaybookView,
});

const credentialsRoute = createRoute({
  getParentRoute: () => rootRoute,
  path: "/credentials",
  component: CredentialsPage,
  validateSearch: (search: Record<string, unknown>) =>
    omitUndefined({
      dialog: readWord(search["dialog"], ["set", "delete", "history", "rotate"]),
      name: readText(search["name"]),
    }),
});

const workersRoute = createRoute({
  getParentRoute: () => rootRoute,
  path: "/workers",
  component: WorkersPage,
  validateSearch: (search: Record<string, unknown>) => omitUndefined({ pool: readText(search["pool"]) }),
});

const systemRoute = createRoute({
  getParentRoute: () => rootRoute,
  path: "/system",
  component: SystemPage,
  validateSearch: (search: Record<string, unknown>) =>
    omitUndefined({
      tab: readWord(search["tab"], systemTabs),
      dialog: readWord(search["dialog"], ["create", "revoke"]),
      token: readText(search["token"]),
      actor: readText(search["actor"]),
      action: readText(search["action"]),
      resource: readText(search["resource"]),
      outcome: readWord(search["outcome"], ["done", "denied", "failed"]),
    }),
});

const signInRoute = createRoute({
  getParentRoute: () => rootRoute,
  path: signInPath,
  component: SignedInAlready,
  validateSearch: (search: Record<string, unknown>) =>
    omitUndefined({ failure: readText(search["failure"]), return_to: readText(search["return_to"]) }),
});

const readPane = (search: Record<string, unknown>) => ({
  line: readNumber(search["line"]),
  pane: readWord(search["pane"], ["text", "graph"]),
});

const editRoute = createRoute({
  getParentRoute: () => rootRoute,
  path: "/playbooks/$path/edit",
  component: lazyRouteComponent(() => import("./editor/EditPage"), "EditPage"),
  validateSearch: (search: Record<string, unknown>) =>
    omitUndefined({
      ...readPane(search),
      version: readNumber(search["version"]),
      run: readText(search["run"]),
      dialog: readWord(search["dialog"], ["run"]),
    }),
});

const newPlaybookRoute = createRoute({
  getParentRoute: () => rootRoute,
  path: "/playbooks/new",
  component: lazyRouteComponent(() => import("./editor/EditPage"), "NewPlaybookPage"),
  validateSearch: (search: Record<string, unknown>) => omitUndefined(readPane(search)),
});

export function createAppRouter(client: QueryClient) {
  return createRouter({
    routeTree: rootRoute.addChildren([
      homeRoute,
      runsRoute,
      inboxRoute,
      runRoute,
      playbooksRoute,
      newPlaybookRoute,
      playbookRoute,
      editRoute,
      credentialsRoute,
      workersRoute,
      systemRoute,
      signInRoute,
    ]),
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
