"""HTTP connections to the SuperLink: how they are made, and what goes wrong as the errors of `channel`."""

import ssl
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx

from pfedeg.network.channel import RefusedError, RunEndedError, UnreachableError


def http_client(certificate: str, timeout: float) -> httpx.Client:
    """Connects to the server itself: no proxy from the environment, no redirection. `certificate` is the CA's path.

    A list of revoked certificates beside it is used, too.
    """
    context = ssl.create_default_context(cafile=certificate)
    revoked = Path(certificate).with_name("revoked.crl")
    if revoked.exists():
        context.load_verify_locations(revoked)
        context.verify_flags |= ssl.VERIFY_CRL_CHECK_LEAF
    return httpx.Client(
        verify=context,
        timeout=httpx.Timeout(timeout, connect=10.0),
        follow_redirects=False,
        trust_env=False,
    )


@contextmanager
def translated_errors() -> Iterator[None]:
    """Raise UnreachableError, RefusedError or RunEndedError in place of what httpx and Flower raise."""
    try:
        yield
    except httpx.HTTPStatusError as error:
        code = error.response.status_code
        text = f"{code} {_reason(error.response)}"
        if code >= 500:
            raise UnreachableError(text) from None
        if code == 403:
            raise RunEndedError(text) from None
        raise RefusedError(text) from None
    except (httpx.TransportError, OSError, ValueError) as error:  # ValueError: a response that Flower cannot read
        raise UnreachableError(f"{type(error).__name__}: {error}") from None
    except SystemExit as error:  # flwr exits on incompatible versions
        if not error.code:
            raise
        raise RefusedError(f"Flower on the other side has an incompatible version ({error})") from None
    except Exception as error:  # protobuf and Flower fail in many ways on bytes that they did not write
        raise UnreachableError(f"a response that cannot be read ({type(error).__name__})") from None


def _reason(response: httpx.Response) -> str:
    """The reason that a response gives, short."""
    try:
        return str(response.json()["detail"])[:200]
    except (ValueError, KeyError, TypeError):
        return response.reason_phrase
