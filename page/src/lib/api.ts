import { parse } from "./json";
import type { Problem } from "./types";

const STORED = "viewkeeper.token";

/** Where the API is: beside the page, also behind a proxy that adds a prefix. */
export const base = (): URL => new URL("api/v1/", document.baseURI.replace(/[#?].*$/, ""));

export const token = {
  get: (): string | null => sessionStorage.getItem(STORED),
  set: (value: string | null): void => {
    if (value) sessionStorage.setItem(STORED, value);
    else sessionStorage.removeItem(STORED);
  },
};

/** An answer that is not a result: what is wrong, where, and a hint. */
export class ApiError extends Error implements Problem {
  title: string;
  status: number;
  code: string;
  detail: string;
  hint: string | null;
  place: Problem["place"];
  oldest?: number;

  constructor(problem: Partial<Problem>) {
    super(problem.detail || problem.title || "the request failed");
    this.title = problem.title ?? "Error";
    this.status = problem.status ?? 0;
    this.code = problem.code ?? "unknown";
    this.detail = problem.detail ?? this.message;
    this.hint = problem.hint ?? null;
    this.place = problem.place ?? null;
    if (problem.oldest !== undefined) this.oldest = problem.oldest;
  }

  get unauthorized(): boolean {
    return this.status === 401;
  }

  get unreachable(): boolean {
    return this.status === 0;
  }
}

let refused: () => void = () => {};

/** Sets what happens when the server asks for a token. */
export function onUnauthorized(then: () => void): void {
  refused = then;
}

export async function request<T>(path: string, init: RequestInit = {}): Promise<T> {
  const headers = new Headers(init.headers);
  headers.set("Accept", "application/json");
  const bearer = token.get();
  if (bearer) headers.set("Authorization", `Bearer ${bearer}`);
  let response: Response;
  let body: string;
  try {
    response = await fetch(new URL(path, base()), { ...init, headers });
    body = await response.text();
  } catch (error) {
    if ((error as Error).name === "AbortError") throw error;
    throw new ApiError({ title: "No connection", code: "unreachable", detail: "The server does not answer.", status: 0 });
  }
  if (response.ok) {
    try {
      return parse(body) as T;
    } catch {
      throw new ApiError({ code: "malformed", detail: `The answer of ${path} is not JSON.`, status: response.status });
    }
  }
  let problem: Partial<Problem> = {};
  try {
    problem = parse(body) as Partial<Problem>;
  } catch {
    // A proxy in between may answer in its own way: the status has to do.
  }
  const error = new ApiError({
    ...problem,
    status: response.status,
    detail: problem.detail || problem.title || `The server answered ${response.status} ${response.statusText}`.trim() + ".",
  });
  if (error.unauthorized) refused();
  throw error;
}

export const get = <T>(path: string, signal?: AbortSignal): Promise<T> => request<T>(path, signal ? { signal } : {});

export const post = <T>(path: string, body: unknown): Promise<T> =>
  request<T>(path, { method: "POST", headers: { "Content-Type": "application/json" }, body: JSON.stringify(body) });

export const relationPath = (name: string, rest = "", query: Record<string, string | number | null | undefined> = {}): string => {
  const parameters = new URLSearchParams();
  for (const [key, value] of Object.entries(query)) if (value != null && value !== "") parameters.set(key, String(value));
  const text = parameters.toString();
  return `views/${encodeURIComponent(name)}${rest}${text ? "?" + text : ""}`;
};
