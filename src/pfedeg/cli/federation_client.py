"""The commands `pfedeg client …`, which take part in a federation."""

import json
from pathlib import Path

import click

from pfedeg.cli.client_names import client_names, names_check
from pfedeg.cli.federation import FOLDER, check_flower, log_line
from pfedeg.cli.naming import naming_options
from pfedeg.cli.options import CONTEXT, Group, json_option, print_note, threads_option
from pfedeg.errors import InputError
from pfedeg.text import printable


@click.group(cls=Group, context_settings=CONTEXT)
def client() -> None:
    """Take part in a federation with your own graph.

    \b
    In this order:
      pfedeg client init me --name hospital --data hospital/ --server https://fed.example.org:8443 \\
        --ca ca.crt --secret alignment.secret
      (send me/client.pub to the server operator)
      pfedeg client start me
    """


@client.command("init", context_settings=CONTEXT)
@FOLDER
@click.option("--name", required=True, metavar="NAME", help="this client's name in the federation")
@click.option(
    "--data", required=True, type=click.Path(path_type=Path), help="the client's graph: a folder or a Parquet file"
)
@click.option("--server", required=True, metavar="URL", help="https://HOST:PORT")
@click.option("--ca", required=True, type=click.Path(path_type=Path), help="ca.crt, from the server operator")
@click.option("--secret", required=True, type=click.Path(path_type=Path), help="the alignment secret of all clients")
@click.option(
    "--allow", multiple=True, metavar="ID", help="a plug-in (package.module:NAME) that runs may use; may be repeated"
)
@naming_options
@threads_option
def client_init(
    folder: Path,
    name: str,
    data: Path,
    server: str,
    ca: Path,
    secret: Path,
    allow: tuple[str, ...],
    names: str,
    map_: Path | None,
    prefixes: tuple[str, ...],
    threads: int | None,
) -> None:
    """Make a client's folder with a new key pair.

    Prints the public key, which the server operator enrols.

    \b
    Example:
      pfedeg client init me --name hospital --data hospital/ --server https://fed.example.org:8443 \\
        --ca ca.crt --secret alignment.secret
    """
    check_flower()
    from pfedeg.network.operations.certificates import read_public, short
    from pfedeg.network.operations.client_folder import ClientConfig, ClientFolder

    map_file = None if map_ is None else str(map_)
    config = ClientConfig(name, str(data), server, threads, allow, names, map_file, prefixes)
    home = ClientFolder.create(folder, config, ca=ca, secret=secret)
    click.echo(home.public.read_text().strip())
    for line in names_check(home.config):
        print_note(line)
    print_note(f"send {home.public} to the server operator; compare the key: {short(read_public(home.public))}")
    print_note(f"what the server may ask for: `limits` in {home.path / 'client.json'}")
    print_note(f"once it is enrolled: pfedeg client start {folder}")


@client.command("allow", context_settings=CONTEXT)
@FOLDER
@click.argument("identifiers", metavar="[ID]...", nargs=-1)
@click.option("--remove", is_flag=True, help="withdraw permission, from the next run on")
def client_allow(folder: Path, identifiers: tuple[str, ...], remove: bool) -> None:
    """Allow plug-ins at this client, or list them.

    Plug-ins are methods, models, objectives and optimisers that are not built in. Without ID, lists those allowed.

    A plug-in is code that runs at this client, with access to its graph. Install it first; allow only what you trust.

    \b
    Examples:
      pfedeg client allow me mypackage.mine:METHOD
      pfedeg client allow me mypackage.mine:METHOD --remove
    """
    check_flower()
    from pfedeg.network.operations.client_folder import ClientFolder

    home = ClientFolder(folder)
    if identifiers:
        (home.disallow if remove else home.allow)(identifiers)
    elif remove:
        raise InputError("--remove: name the plug-ins to remove")
    listed = ", ".join(map(printable, home.allowed()))
    click.echo(f"allowed plug-ins: {listed or 'none'}")


@client.command("renew", context_settings=CONTEXT)
@FOLDER
def client_renew(folder: Path) -> None:
    """Make a new key pair for this client.

    The server operator must remove the old key and enrol the new one.

    \b
    Example:
      pfedeg client stop me && pfedeg client renew me
    """
    check_flower()
    from pfedeg.network.operations.certificates import make_pair, read_public, short
    from pfedeg.network.operations.client_folder import ClientFolder
    from pfedeg.network.operations.supervisor import check_stopped

    home = ClientFolder(folder)
    check_stopped(home.path)
    make_pair(home.path, home.config.name)
    click.echo(home.public.read_text().strip())
    print_note(f"fingerprint of the key, to compare: {short(read_public(home.public))}")
    print_note("the server operator must `pfedeg server remove` the old key and `enroll` this one")


@client.command("start", context_settings=CONTEXT)
@FOLDER
@click.option("--foreground", is_flag=True, help="stay in the foreground, for systemd")
def client_start(folder: Path, foreground: bool) -> None:
    """Join the server.

    The client reconnects after crashes and network failures.

    \b
    Example:
      pfedeg client start me
    """
    check_flower()
    from pfedeg.network.operations.client_folder import ClientFolder

    home = ClientFolder(folder)
    if foreground:
        home.watch(log_line)
        return
    home.start()
    click.echo(f"{printable(home.config.name)} is running; see: pfedeg client status {folder}")


@client.command("work", context_settings=CONTEXT, hidden=True)
@FOLDER
def client_work(folder: Path) -> None:
    """The worker process that `client start` keeps running."""
    check_flower()
    from pfedeg.network.operations.client_folder import ClientFolder
    from pfedeg.network.operations.client_process import work

    work(ClientFolder(folder), log_line)


@client.command("stop", context_settings=CONTEXT)
@FOLDER
def client_stop(folder: Path) -> None:
    """Leave the server.

    \b
    Example:
      pfedeg client stop me
    """
    check_flower()
    from pfedeg.network.operations.client_folder import ClientFolder
    from pfedeg.network.operations.supervisor import stop

    stopped = stop(ClientFolder(folder).path)
    click.echo("stopped" if stopped else "was not running")


@client.command("status", context_settings=CONTEXT)
@FOLDER
@json_option
def client_status(folder: Path, as_json: bool) -> None:
    """Show the state of this client and its runs.

    \b
    Example:
      pfedeg client status me
    """
    check_flower()
    from pfedeg.network.operations.client_folder import ClientFolder

    home = ClientFolder(folder)
    status = home.status()
    if as_json:
        click.echo(json.dumps(status, ensure_ascii=False))
        return
    detail = f": {status['detail']}" if status.get("detail") else ""
    click.echo(printable(f"{status['name']} at {status['server']}: {status['state']}{detail}"))
    click.echo(f"  key {status['key']}, secret's fingerprint {status.get('secret', 'unknown')}")
    if status["certificate"]["problem"]:
        click.echo(
            f"  ca.crt: the certificate {status['certificate']['problem']}; the server operator must send a new one"
        )
    if status["allowed"]:
        click.echo(f"  allowed plug-ins: {', '.join(map(printable, status['allowed']))}")
    for name in status["unfinished"]:
        click.echo(f"  unfinished run: pfedeg show {home.path / 'runs' / name}")
    for name in status["finished"]:
        click.echo(f"  finished run: pfedeg show {home.path / 'runs' / name}")


client.add_command(client_names)
ORDER = ("init", "allow", "names", "start", "status", "stop", "renew", "work")
client.commands = {name: client.commands[name] for name in ORDER}
