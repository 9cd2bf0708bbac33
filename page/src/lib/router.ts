import { signal } from "@preact/signals";

export interface Route {
  page: string;
  name: string | null;
  parameters: URLSearchParams;
}

export function read(hash: string): Route {
  const [path = "", query = ""] = hash.replace(/^#\/?/, "").split("?", 2);
  const [page = "", name] = path.split("/", 2);
  let decoded: string | null = null;
  try {
    decoded = name ? decodeURIComponent(name) : null;
  } catch {
    decoded = name ?? null;
  }
  return { page: page || "overview", name: decoded, parameters: new URLSearchParams(query) };
}

export function link(page: string, name?: string | number | null, parameters: Record<string, string | number | null> = {}): string {
  const query = new URLSearchParams();
  for (const [key, value] of Object.entries(parameters)) if (value !== null && value !== "") query.set(key, String(value));
  const text = query.toString();
  return `#/${page === "overview" ? "" : page}${name == null ? "" : "/" + encodeURIComponent(name)}${text ? "?" + text : ""}`;
}

export const route = signal<Route>(typeof location === "undefined" ? read("") : read(location.hash));

/** Follows the address bar; tells when another page (not another state of the same one) is shown. */
export function follow(arrived: () => void): void {
  addEventListener("hashchange", () => {
    const [was, is] = [route.value, read(location.hash)];
    route.value = is;
    if (was.page !== is.page || was.name !== is.name) arrived();
  });
}

/** Puts a state into the address without a new entry in the history. */
export function replace(address: string): void {
  history.replaceState(null, "", address);
  route.value = read(address);
}
