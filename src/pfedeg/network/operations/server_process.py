"""The server's processes: the SuperLink on loopback and the proxy in front of it, kept running."""

import socket
import threading
import time
from collections.abc import Callable
from functools import partial

from pfedeg.errors import InputError, RunError
from pfedeg.network.flower_install import OFFLINE, superlink_command
from pfedeg.network.operations import certificates as keys
from pfedeg.network.operations import supervisor
from pfedeg.network.operations.nginx import find_nginx, is_loopback
from pfedeg.network.operations.server_folder import ServerFolder


def start(server: ServerFolder, proxy: bool = True) -> None:
    """Start SuperLink and proxy in the background."""
    supervisor.check_stopped(server.path)
    _check_certificates(server)
    _check(server, proxy)
    command = ["server", "start", str(server.path), "--foreground", *([] if proxy else ["--no-proxy"])]
    supervisor.start(server.path, command, lambda: (server.path / "run" / "ready").exists())


def serve(server: ServerFolder, log: Callable[[str], None], proxy: bool = True) -> None:
    """Run SuperLink and proxy until stopped."""
    with supervisor.lock(server.path):
        _check_certificates(server)
        _check(server, proxy)
        run = server.path / "run"
        (run / "ready").unlink(missing_ok=True)
        (run / "no-proxy").unlink(missing_ok=True)
        if not proxy:
            (run / "no-proxy").touch()
        children = [_superlink(server, log)]
        if proxy:
            server.configure_proxy()
            command = [str(find_nginx()), "-e", f"{server.path}/log/nginx.log", "-c", f"{server.path}/nginx.conf"]
            children.append(supervisor.Child("nginx", command))
        try:
            supervisor.watch(server.path, children, log)
        finally:
            (run / "ready").unlink(missing_ok=True)


def _check(server: ServerFolder, proxy: bool) -> None:
    """Refuse to start without a proxy where others could reach the SuperLink, or on ports in use."""
    config = server.config
    if proxy and find_nginx() is None:
        hint = "apt install nginx-light" + (", or add --no-proxy" if is_loopback(config.host) else "")
        raise InputError(f"nginx is not installed; it shields the SuperLink's other interfaces: {hint}")
    if not proxy and not is_loopback(config.host):
        text = "without the proxy, anyone who reaches the port could start runs and enrol keys"
        raise InputError(f"--no-proxy: only for a --host on loopback; {text}")
    for port in (config.port, config.superlink_port) if proxy else (config.port,):
        with socket.socket() as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind(("127.0.0.1", port))
            except OSError as error:
                hint = "stop the program that uses it, or `pfedeg server init` a folder with another --port"
                raise InputError(f"port {port} cannot be used: {error.strerror}; {hint}") from None


def _check_certificates(server: ServerFolder) -> None:
    keys.check_valid(server.path / "server.crt", f"`pfedeg server renew {server.path}` makes a new one")
    keys.check_valid(server.path / "ca.crt", "make a new server folder, and give its ca.crt to the clients")


def _superlink(server: ServerFolder, log: Callable[[str], None]) -> supervisor.Child:
    folder, config = server.path, server.config
    command = superlink_command(
        *("--ssl-ca-certfile", f"{folder}/ca.crt"),
        *("--ssl-certfile", f"{folder}/server.crt", "--ssl-keyfile", f"{folder}/server.key"),
        *("--host", "127.0.0.1", "--port", str(config.superlink_port if server.behind_proxy else config.port)),
    )
    environment = {**OFFLINE, "FLWR_LOG_LEVEL": "WARNING", "FLWR_HOME": f"{folder}/run/flower"}
    return supervisor.Child("superlink", command, environment, partial(_register_in_background, server, log))


def _register_in_background(server: ServerFolder, log: Callable[[str], None]) -> None:
    """Register the enrolled clients at a SuperLink that has just started; it forgets them when it stops."""

    def register() -> None:
        for _ in range(300):
            try:
                with server.channel() as channel:
                    enrolled = server.enrollment.keys()
                    server.register(channel, enrolled)
                (server.path / "run" / "ready").touch()
                log(f"SuperLink is ready; {len(enrolled)} clients enrolled")
                return
            except RunError:
                time.sleep(0.2)
            except InputError as error:
                log(f"error: {error}")
                return

    (server.path / "run" / "ready").unlink(missing_ok=True)
    threading.Thread(target=register, daemon=True).start()
