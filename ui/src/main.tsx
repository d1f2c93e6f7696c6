// Starts the client.
import { QueryCache, QueryClient, QueryClientProvider } from "@tanstack/react-query";
import { RouterProvider } from "@tanstack/react-router";
import { Provider as TooltipProvider } from "@radix-ui/react-tooltip";
import { StrictMode } from "react";
import { createRoot } from "react-dom/client";
import { ApiError } from "./api/problem";
import { createAppRouter } from "./router";
import { applyPreferences } from "./shell/preferences";
import "./styles/fonts.css";
import "./styles/tokens.css";
import "./styles/base.css";
import "./parts/parts.css";

const retriesMax = 3;

const client: QueryClient = new QueryClient({
  queryCache: new QueryCache({
    onError: (error, query) => {
      // The session ended: reading it again shows the sign-in page.
      const isUnauthenticated = error instanceof ApiError && error.status === 401;
      if (isUnauthenticated && query.queryKey[0] !== "session")
        void client.invalidateQueries({ queryKey: ["session"] });
    },
  }),
  defaultOptions: {
    mutations: { networkMode: "always" },
    queries: {
      // The server may run on this machine, which needs no network.
      networkMode: "always",
      staleTime: 2000,
      // The network is tried again; what the server refused is not.
      retry: (failures, error) => failures < retriesMax && error instanceof ApiError && error.status === 0,
    },
  },
});

applyPreferences();

const root = document.getElementById("root");
if (root) {
  createRoot(root).render(
    <StrictMode>
      <QueryClientProvider client={client}>
        <TooltipProvider delayDuration={400} skipDelayDuration={100}>
          <RouterProvider router={createAppRouter(client)} />
        </TooltipProvider>
      </QueryClientProvider>
    </StrictMode>,
  );
}
