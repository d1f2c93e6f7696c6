// What a failed request says: code, detail and remedy, as the server writes them and the CLI prints them.
import type { Diagnostic } from "./types";

export class ApiError extends Error {
  override readonly name = "ApiError";

  constructor(
    readonly status: number,
    readonly code: string,
    readonly detail: string,
    readonly remedy: string | null = null,
    readonly diagnostics: Diagnostic[] = [],
  ) {
    super(detail);
  }
}

/** Reads the problem of a response that is not a success. */
export async function readProblem(response: Response): Promise<ApiError> {
  const text = await response.text();
  try {
    const body: unknown = JSON.parse(text);
    if (isProblem(body)) {
      return new ApiError(response.status, body.code, body.detail, body.remedy ?? null, body.errors ?? []);
    }
  } catch {
    // The body is not JSON: a proxy answered instead of the server.
  }
  const detail = `the response has status ${response.status} and no problem document`;
  return new ApiError(response.status, "NOT_A_PROBLEM", detail, "check what is between the browser and the server");
}

/** Any thrown value as an error that can be shown. */
export function toApiError(error: unknown): ApiError {
  if (error instanceof ApiError) return error;
  const detail = error instanceof Error ? error.message : String(error);
  return new ApiError(0, "CLIENT_ERROR", detail, "reload the page");
}

interface ProblemBody {
  code: string;
  detail: string;
  remedy?: string | null;
  errors?: Diagnostic[];
}

function isProblem(body: unknown): body is ProblemBody {
  return typeof body === "object" && body !== null && "code" in body && "detail" in body;
}
