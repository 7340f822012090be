"""What protects the studio from other web pages and other people: hosts, origins, a token, limits and headers.

Design note: a page on the internet can make a browser send requests to this machine. It cannot choose the `Host` and
`Origin` headers, so both are checked on every request. Names of this machine are only those that the user gave; an
address in numbers is no name, and cannot be rebound.
"""

from __future__ import annotations

import hmac
import ipaddress
from collections.abc import Mapping
from http.cookies import CookieError, SimpleCookie
from urllib.parse import parse_qs

from starlette.datastructures import MutableHeaders
from starlette.responses import JSONResponse, RedirectResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

COOKIE = "musicgen_token"
LONGEST_HEADER = 4096
HEADERS = {
    "Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; "
    "connect-src 'self'; media-src 'self' blob:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
}


class Guard:
    """Refuses requests that the user of this machine did not make.

    Args:
        app: What it guards.
        host: The address that the studio is bound to.
        token: What a client has to know; empty if the studio is bound to this machine only.
    """

    def __init__(self, app: ASGIApp, host: str, token: str = "") -> None:
        self._app, self._token = app, token
        self._names = {"localhost", "127.0.0.1", "::1", host.lower()}
        self._takes_addresses = bool(token)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on, or refuse it."""
        if scope["type"] != "http":
            if scope["type"] == "lifespan":
                await self._app(scope, receive, send)
            return

        async def send_with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                MutableHeaders(scope=message).update(HEADERS)
            await send(message)

        headers = {name.decode("latin-1"): value.decode("latin-1") for name, value in scope["headers"]}
        refusal = self._refusal(scope["method"] == "GET" and not scope["path"].startswith("/api"), headers)
        if refusal:
            await JSONResponse({"error": refusal}, 403)(scope, receive, send_with_headers)
            return
        if self._token and not self._knows_token(scope, headers):
            sentence = "this studio needs its token: open the address that `musicgen studio` printed"
            await JSONResponse({"error": sentence}, 401)(scope, receive, send_with_headers)
            return
        if self._token and scope["path"] == "/" and b"token=" in scope["query_string"]:
            answer = RedirectResponse("/", 303)  # the address bar forgets the token, the browser keeps it
            answer.set_cookie(COOKIE, self._token, httponly=True, samesite="strict")
            await answer(scope, receive, send_with_headers)
            return
        await self._app(scope, receive, send_with_headers)

    def _refusal(self, is_page: bool, headers: Mapping[str, str]) -> str:
        """Why a request is refused; empty if it is not. Another site may have a link to the page, and no more."""
        host = headers.get("host", "")
        if not self._is_ours(host):
            return f"{host[:100]}: the studio does not answer to this name; open the address that it printed"
        origin = headers.get("origin")
        if origin is not None and origin.partition("://")[2] != host:
            return "another web site may not use the studio"
        if headers.get("sec-fetch-site", "same-origin") not in ("same-origin", "none") and not is_page:
            return "another web site may not use the studio"
        return ""

    def _is_ours(self, host: str) -> bool:
        name = host.rpartition(":")[0] if host.rpartition(":")[2].isdigit() else host
        name = name.strip("[]").lower()
        if name in self._names:
            return True
        try:
            ipaddress.ip_address(name)
        except ValueError:
            return False
        return self._takes_addresses  # bound to a network, this machine has several addresses

    def _knows_token(self, scope: Scope, headers: Mapping[str, str]) -> bool:
        given = parse_qs(scope["query_string"].decode("latin-1")[:LONGEST_HEADER]).get("token", [])
        given += [headers.get("authorization", "").removeprefix("Bearer ")]
        try:
            cookies = SimpleCookie(headers.get("cookie", "")[:LONGEST_HEADER])
        except CookieError:
            cookies = SimpleCookie()
        given += [cookies[COOKIE].value] if COOKIE in cookies else []
        return any(hmac.compare_digest(one.encode(), self._token.encode()) for one in given)


def is_loopback(host: str) -> bool:
    """Whether an address is of this machine only."""
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return host == "localhost"
