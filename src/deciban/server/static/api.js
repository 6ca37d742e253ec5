// The API of the server that this page comes from. The token stays in this tab, and is sent only as a header.

const KEPT = "deciban-token";
let token = sessionStorage.getItem(KEPT);

export class ApiError extends Error {
  constructor(status, error) {
    super(error.message);
    this.status = status;
    this.code = error.code;
  }
}

export const hasToken = () => token !== null;

export function keepToken(given) {
  token = given;
  if (given === null) sessionStorage.removeItem(KEPT);
  else sessionStorage.setItem(KEPT, given);
}

async function send(method, path, body, kind) {
  const headers = {};
  if (token !== null) headers.authorization = `Bearer ${token}`;
  if (body !== undefined) headers["content-type"] = kind;
  let response;
  try {
    response = await fetch(path, { method, headers, body, credentials: "omit", redirect: "error" });
  } catch {
    throw new ApiError(0, { code: "unreachable", message: "The server does not answer." });
  }
  if (response.ok) return response;
  let error = { code: "http", message: `The server answered with status ${response.status}.` };
  try {
    error = (await response.json()).error;
  } catch {
    // not JSON: the status is all there is
  }
  if (response.status === 401) window.dispatchEvent(new CustomEvent("signed-out", { detail: error.message }));
  throw new ApiError(response.status, error);
}

export const get = async (path) => (await send("GET", path)).json();
export const post = async (path, body) =>
  (await send("POST", path, JSON.stringify(body), "application/json")).json();
export const sendFile = async (method, path, file) =>
  (await send(method, path, file, "application/octet-stream")).json();
export const download = async (path) => (await send("GET", path)).blob();

export const modelPath = (name, what) => `v1/models/${encodeURIComponent(name)}${what ? `/${what}` : ""}`;

// Bytes as base64, in parts: a call has a limited number of arguments.
export function base64(bytes) {
  let text = "";
  for (let at = 0; at < bytes.length; at += 8192) text += String.fromCharCode(...bytes.subarray(at, at + 8192));
  return btoa(text);
}
