"""The commands `pfedeg server …`, which set up and run the server of a federation and enrol its clients."""

import json
from pathlib import Path

import click

from pfedeg.cli.federation import FOLDER, check_flower, log_line
from pfedeg.cli.federation_run import server_run
from pfedeg.cli.options import CONTEXT, Group, json_option, print_note
from pfedeg.text import printable


@click.group(cls=Group, context_settings=CONTEXT)
def server() -> None:
    """Run the server of a federation between organisations.

    \b
    In this order:
      pfedeg server init fed --host fed.example.org --port 8443
      pfedeg server enroll fed hospital hospital.pub
      pfedeg server start fed
      pfedeg server run fed --method pfedeg-plus --model rotate --rounds 100
    """


@server.command("init", context_settings=CONTEXT)
@FOLDER
@click.option("--host", required=True, metavar="H", help="this machine's name or address, as clients reach it")
@click.option(
    "--port", required=True, type=int, metavar="P", help="port for clients; the next port is used on loopback"
)
@click.option("--pseudonyms", is_flag=True, help="show clients to each other under pseudonyms only")
def server_init(folder: Path, host: str, port: int, pseudonyms: bool) -> None:
    """Make a server's folder.

    It contains a CA, the server's certificate and the configuration of the proxy.

    \b
    Example:
      pfedeg server init fed --host fed.example.org --port 8443
    """
    check_flower()
    from pfedeg.network.operations.server_folder import ServerFolder

    home = ServerFolder.create(folder, host, port, pseudonyms)
    click.echo(f"made {folder}; send {home.path / 'ca.crt'} to the clients over a tamper-proof channel")
    print_note(f"next: pfedeg server enroll {folder} NAME NAME.pub")


@server.command("enroll", context_settings=CONTEXT)
@FOLDER
@click.argument("name")
@click.argument("public", metavar="KEY.pub", type=click.Path(path_type=Path))
@click.option(
    "--triples", type=click.IntRange(1), metavar="N", help="training triples that it may have at most  [default: any]"
)
def server_enroll(folder: Path, name: str, public: Path, triples: int | None) -> None:
    """Enrol a client with its public key.

    Works while the server is running. A removed key can be enrolled again only after the server is restarted.

    \b
    Example:
      pfedeg server enroll fed hospital hospital.pub
    """
    check_flower()
    from pfedeg.network.operations.certificates import short
    from pfedeg.network.operations.server_folder import ServerFolder

    key = ServerFolder(folder).enroll(name, public, triples)
    click.echo(f"enrolled {printable(name)}; compare the fingerprint of its key with the client: {short(key)}")


@server.command("remove", context_settings=CONTEXT)
@FOLDER
@click.argument("name")
def server_remove(folder: Path, name: str) -> None:
    """Remove a client.

    It is refused from its next request on. Works while the server is running.

    \b
    Example:
      pfedeg server remove fed hospital
    """
    check_flower()
    from pfedeg.network.operations.server_folder import ServerFolder

    ServerFolder(folder).remove(name)
    click.echo(f"removed {printable(name)}")


@server.command("renew", context_settings=CONTEXT)
@FOLDER
def server_renew(folder: Path) -> None:
    """Make a new key for the server, and revoke the old one.

    The new certificate is signed by the same CA. Clients need no change: they get the list of revoked certificates with
    the next run.

    \b
    Example:
      pfedeg server stop fed && pfedeg server renew fed && pfedeg server start fed
    """
    check_flower()
    from pfedeg.network.operations.certificates import certify_server, revoke_server
    from pfedeg.network.operations.server_folder import ServerFolder
    from pfedeg.network.operations.supervisor import check_stopped

    home = ServerFolder(folder)
    check_stopped(home.path)
    revoke_server(home.path)
    certify_server(home.path, home.config.host)
    click.echo("made a new key and certificate for the server; the old ones are revoked")


@server.command("start", context_settings=CONTEXT)
@FOLDER
@click.option("--foreground", is_flag=True, help="stay in the foreground, for systemd")
@click.option("--no-proxy", is_flag=True, help="run without nginx; only for a --host on loopback")
def server_start(folder: Path, foreground: bool, no_proxy: bool) -> None:
    """Start the SuperLink and its proxy.

    Both are restarted if they fail.

    \b
    Example:
      pfedeg server start fed
    """
    check_flower()
    from pfedeg.network.operations.server_folder import ServerFolder
    from pfedeg.network.operations.server_process import serve, start

    home = ServerFolder(folder)
    if foreground:
        serve(home, log_line, proxy=not no_proxy)
        return
    start(home, proxy=not no_proxy)
    click.echo(f"the server listens at {home.config.url}")


@server.command("stop", context_settings=CONTEXT)
@FOLDER
def server_stop(folder: Path) -> None:
    """Stop the SuperLink and the proxy.

    \b
    Example:
      pfedeg server stop fed
    """
    check_flower()
    from pfedeg.network.operations.server_folder import ServerFolder
    from pfedeg.network.operations.supervisor import stop

    stopped = stop(ServerFolder(folder).path)
    click.echo("stopped" if stopped else "was not running")


@server.command("status", context_settings=CONTEXT)
@FOLDER
@json_option
def server_status(folder: Path, as_json: bool) -> None:
    """Show the state of the server, clients and runs.

    \b
    Example:
      pfedeg server status fed
    """
    check_flower()
    from pfedeg.network.operations.server_folder import ServerFolder

    status = ServerFolder(folder).status()
    if as_json:
        click.echo(json.dumps(status, ensure_ascii=False))
        return
    running = "running" if status["running"] else "not running (pfedeg server start)"
    click.echo(f"{status['address']}: {running}; proxy: {status['proxy']}")
    for file, about in status["certificates"].items():
        if about["problem"]:
            click.echo(f"  {file}: the certificate {about['problem']}{' (pfedeg server renew)' * (file != 'ca.crt')}")
        else:
            click.echo(f"  {file}: valid until {about['until']}")
    for name, entry in status["clients"].items():
        online = f"online since {entry['since'][:19].replace('T', ' ')} UTC" if entry["online"] else "offline"
        click.echo(f"  {printable(name)}: {online}, key {entry['key']}")
    if not status["clients"]:
        click.echo("  no client is enrolled")
    for name, state in status["runs"].items():
        click.echo(f"  run {name}: {state}")


server.add_command(server_run)
ORDER = ("init", "enroll", "start", "run", "status", "stop", "remove", "renew")
server.commands = {name: server.commands[name] for name in ORDER}
