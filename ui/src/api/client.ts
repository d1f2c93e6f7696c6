// The HTTP client of the API. All addresses derive from the base of the document, so any path prefix works.
import createClient from "openapi-fetch";
import type { paths } from "./schema";
import { reportConnection } from "./connection";
import { ApiError, readProblem } from "./problem";

/** Where the client and the API are served from; ends in a slash. */
export const baseUrl = new URL(".", document.baseURI);

/** Sends a request; throws an `ApiError` if it does not succeed. */
export async function send(input: Request): Promise<Response> {
  let response: Response;
  try {
    response = await fetch(input);
  } catch (error) {
    if (input.signal.aborted) throw error;
    reportConnection(false);
    throw new ApiError(0, "UNREACHABLE", `cannot connect to ${baseUrl.host}`, "check that the server is running");
  }
  reportConnection(![502, 504].includes(response.status));
  if (!response.ok) throw await readProblem(response);
  return response;
}

export const api = createClient<paths>({
  baseUrl: baseUrl.href.replace(/\/$/, ""),
  // The server demands this header for changes that rely on the session cookie.
  headers: { "X-Noetl-Client": "web" },
  fetch: send,
});

/** The data of a response; failures were thrown before. */
export async function readData<Data>(answer: Promise<{ data?: Data }>): Promise<Data> {
  const { data } = await answer;
  if (data === undefined) throw new ApiError(0, "EMPTY_RESPONSE", "the response is empty", "try again");
  return data;
}

/** The address of a path of the API that starts with a slash. */
export function apiUrl(path: string): URL {
  return new URL(path.replace(/^\//, ""), baseUrl);
}

/** The body of a request as JSON text, for integers that JavaScript numbers would round. */
export function rawBody(json: string) {
  return { body: {}, bodySerializer: () => json, headers: { "Content-Type": "application/json" } };
}
