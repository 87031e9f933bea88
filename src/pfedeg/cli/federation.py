"""The commands of a federation between organisations: `pfedeg secret`, `pfedeg server …`, `pfedeg client …`."""

import json
import time
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import click

from pfedeg.cli.options import CONTEXT, Settings, console, json_option, say, threads_option
from pfedeg.errors import InputError
from pfedeg.text import printable

FOLDER = click.argument("folder", metavar="DIR", type=click.Path(path_type=Path))


def needs_flower() -> None:
    """Say what to install, if it is not."""
    for name in ("cryptography", "flwr"):
        if find_spec(name) is None:
            text = "a federation over a network needs the `flower` extra: pip install 'pfedeg[flower]'"
            raise InputError(f"{text} ({name} is missing)")


def stamped(text: str) -> None:
    """A line of a log."""
    click.echo(f"{time.strftime('%Y-%m-%d %H:%M:%S')} {printable(text)}", err=True)


@click.command(context_settings=CONTEXT)
@click.argument("file", type=click.Path(path_type=Path))
def secret(file: Path) -> None:
    """Make the alignment secret of a federation, for its clients only.

    One of the clients makes it and hands it to the others by a safe way; the server must never have it.

    \b
    Example:
      pfedeg secret alignment.secret
    """
    from pfedeg.graphs.alignment import fingerprint
    from pfedeg.network.operations.alignment_secret import make_secret, read_secret

    make_secret(file)
    click.echo(f"wrote {file}; its fingerprint, which may be shown: {fingerprint(read_secret(file))}")
    say("give it to the other clients by a safe way, and never to the server")


@click.group(context_settings=CONTEXT)
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
@click.option("--host", required=True, metavar="H", help="name or address by which clients reach this machine")
@click.option("--port", required=True, type=int, metavar="P", help="port for clients; the next one is used on loopback")
@click.option("--pseudonyms", is_flag=True, help="clients know each other by made-up names only")
def server_init(folder: Path, host: str, port: int, pseudonyms: bool) -> None:
    """Make a server's folder: its own CA, the server's certificate, the proxy's configuration.

    \b
    Example:
      pfedeg server init fed --host fed.example.org --port 8443
    """
    needs_flower()
    from pfedeg.network.operations.server_folder import ServerHome

    home = ServerHome.create(folder, host, port, pseudonyms)
    click.echo(f"made {folder}; give {home.path / 'ca.crt'} to the clients, by a way that nobody can tamper with")
    say(f"next: pfedeg server enroll {folder} NAME NAME.pub")


@server.command("enroll", context_settings=CONTEXT)
@FOLDER
@click.argument("name")
@click.argument("public", metavar="KEY.pub", type=click.Path(path_type=Path))
def server_enroll(folder: Path, name: str, public: Path) -> None:
    """Let a client take part: its NAME, and the public key that it sent. Works while the server runs.

    A key that was removed comes back only after the server was stopped and started.

    \b
    Example:
      pfedeg server enroll fed hospital hospital.pub
    """
    needs_flower()
    from pfedeg.network.operations.certificates import short
    from pfedeg.network.operations.server_folder import ServerHome

    key = ServerHome(folder).enroll(name, public)
    click.echo(f"enrolled {printable(name)}; compare its key with the client: {short(key)}")


@server.command("remove", context_settings=CONTEXT)
@FOLDER
@click.argument("name")
def server_remove(folder: Path, name: str) -> None:
    """Refuse a client from its next message on. Works while the server runs.

    \b
    Example:
      pfedeg server remove fed hospital
    """
    needs_flower()
    from pfedeg.network.operations.server_folder import ServerHome

    ServerHome(folder).remove(name)
    click.echo(f"removed {printable(name)}")


@server.command("renew", context_settings=CONTEXT)
@FOLDER
def server_renew(folder: Path) -> None:
    """Make a new key and certificate for the server, by the same CA; clients need nothing new.

    \b
    Example:
      pfedeg server stop fed && pfedeg server renew fed && pfedeg server start fed
    """
    needs_flower()
    from pfedeg.network.operations.certificates import certify_server
    from pfedeg.network.operations.server_folder import ServerHome
    from pfedeg.network.operations.supervisor import watcher

    home = ServerHome(folder)
    if watcher(home.path):
        raise InputError(f"{folder}: is running; stop it first")
    certify_server(home.path, home.place.host)
    click.echo("made a new key and certificate for the server")


@server.command("start", context_settings=CONTEXT)
@FOLDER
@click.option("--foreground", is_flag=True, help="stay in the foreground, as under systemd")
@click.option("--no-proxy", is_flag=True, help="without nginx; only for a --host on loopback")
def server_start(folder: Path, foreground: bool, no_proxy: bool) -> None:
    """Start the SuperLink and the proxy in front of it; they are started again if they die.

    \b
    Example:
      pfedeg server start fed
    """
    needs_flower()
    from pfedeg.network.operations.server_folder import ServerHome

    home = ServerHome(folder)
    if foreground:
        home.serve(stamped, proxy=not no_proxy)
        return
    home.start(proxy=not no_proxy)
    click.echo(f"the server listens at https://{home.place.host}:{home.place.port}")


@server.command("stop", context_settings=CONTEXT)
@FOLDER
def server_stop(folder: Path) -> None:
    """Stop the SuperLink and the proxy.

    \b
    Example:
      pfedeg server stop fed
    """
    needs_flower()
    from pfedeg.network.operations.server_folder import ServerHome
    from pfedeg.network.operations.supervisor import stop

    stopped = stop(ServerHome(folder).path)
    click.echo("stopped" if stopped else "it was not running")


@server.command("status", context_settings=CONTEXT)
@FOLDER
@json_option
def server_status(folder: Path, as_json: bool) -> None:
    """Show whether the server runs, who is enrolled, and who is there.

    \b
    Example:
      pfedeg server status fed
    """
    needs_flower()
    from pfedeg.network.operations.server_folder import ServerHome

    told = ServerHome(folder).status()
    if as_json:
        click.echo(json.dumps(told, ensure_ascii=False))
        return
    runs = "runs" if told["running"] else "does not run (pfedeg server start)"
    click.echo(f"{told['address']}: {runs}; proxy: {told['proxy']}")
    for name, about in told["clients"].items():
        there = f"there since {about['since'][:19].replace('T', ' ')} UTC" if about["there"] else "not there"
        click.echo(f"  {printable(name)}: {there}, key {about['key']}")
    if not told["clients"]:
        click.echo("  nobody is enrolled")
    for name, state in told["runs"].items():
        click.echo(f"  run {name}: {state}")


@server.command("run", cls=Settings, context_settings=CONTEXT)
@FOLDER
@click.option("--resume", is_flag=True, help="go on with the latest run that is not finished, or with the one of --out")
@click.option("--out", type=click.Path(path_type=Path), help="the run directory  [DIR/runs/NAME, a new name]")
@click.option("--quorum", type=click.IntRange(1), metavar="N", help="clients that must answer in a round  [all]")
@click.option(
    "--wait", type=click.FloatRange(0.1), default=600.0, metavar="S", help="seconds for a client's answer  [600]"
)
@click.option(
    "--absent", type=click.FloatRange(0.1), default=90.0, metavar="S", help="seconds for one that is not there  [90]"
)
@click.option("--preset", metavar="NAME", help="settings to start from: paper (default) or quick")
@click.option("--config", "file", type=click.Path(path_type=Path), help="a TOML file of settings; flags go over it")
@threads_option
@json_option
def server_run(
    folder: Path,
    resume: bool,
    out: Path | None,
    quorum: int | None,
    wait: float,
    absent: float,
    preset: str | None,
    file: Path | None,
    threads: int | None,
    as_json: bool,
    **flags: Any,
) -> None:
    """Train with all clients that are enrolled. Waits until they are there; Ctrl-C leaves a run that can go on.

    \b
    Examples:
      pfedeg server run fed --method pfedeg-plus --model rotate --rounds 100
      pfedeg server run fed --resume
    """
    needs_flower()
    from pfedeg.cli.tables import affinity_table, metrics_table, watch
    from pfedeg.network.operations.server_folder import ServerHome
    from pfedeg.network.request_manager import Patience
    from pfedeg.network.server_run import new_name
    from pfedeg.training.config import configure
    from pfedeg.training.run_folder import RunFolder

    home, shown = ServerHome(folder), console(stderr=True)
    log = _teller(home, shown)
    given = {name: value for name, value in flags.items() if value is not None}
    config, remarks = configure(flags, preset, file)
    for remark in remarks:
        say(f"note: {remark}")
    if resume and out is None:
        left = [name for name, state in home.runs().items() if state != "finished"]
        if not left:
            raise InputError(f"{folder}: there is no run that is not finished; leave out --resume to begin one")
        out = home.path / "runs" / left[-1]
    if resume and out is not None and not given and preset is None and file is None:
        config = RunFolder.open(out).config()
    name = new_name()
    out = out or home.path / "runs" / name
    patience = Patience(quorum or 0, wait, absent)
    with home.hub() as hub:
        try:
            training = home.coordinate(
                hub, config, out, name=name, resume=resume, patience=patience, threads=threads, log=log
            )
        except KeyboardInterrupt:
            log("interrupted before the first round")
            raise
        log(f"run {training.name}: {config.method}, {config.model}, up to {config.rounds} rounds")
        try:
            for done in watch(training, shown, config.method):
                away = [name for name in done.selected if name not in done.loss]
                if away or done.metrics is not None:
                    _tell_round(shown, training, done, away)
        except KeyboardInterrupt:
            log(f"interrupted after round {training.rounds_done}; go on with: pfedeg server run {folder} --resume")
            raise
        log(f"run {training.name}: finished")
    result = training.result or {}
    if as_json:
        click.echo(json.dumps(result, ensure_ascii=False))
        return
    title = f"{config.method}, {config.model}: test metrics of round {result['best_round']} of {result['rounds']}"
    console().print(metrics_table(title, {"": result["test"]}))
    affinity = training.affinity()
    if affinity:
        console().print(affinity_table(affinity))
    for name, at in result.get("tables_of_round", {}).items():
        say(f"{name} has kept the tables of round {at}; it missed the evaluation of round {result['best_round']}")
    for name, why in result.get("missing", {}).items():
        say(f"{name} has not got its result ({why}); when it is there: pfedeg server run {folder} --resume")
    up, down = _moved(training)
    click.echo(f"{up:.1f} MB of rows came from clients, {down:.1f} MB went to them")
    click.echo(f"the run is in {out}; the tables are with the clients")


def _moved(training: Any) -> tuple[float, float]:
    """Megabytes of rows from and to clients in all rounds."""
    up, down = (sum(line[kind] for line in training.history) / 1e6 for kind in ("bytes_up", "bytes_down"))
    return up, down


def _tell_round(shown: Any, training: Any, done: Any, away: list[str]) -> None:
    """Who answered, how much has travelled, and who learns from whom at the moment."""
    without = f", without {', '.join(away)}" if away else ""
    text = f"round {done.number}: {len(done.loss)} of {len(done.selected)} answered{without}"
    up, down = _moved(training)
    text += f"; so far {up:.1f} MB of rows up, {down:.1f} MB down"
    shown.print(printable(text), highlight=False, soft_wrap=True)
    close = training.history[-1].get("affinity", {})
    for learner, shares in list(close.items())[:10]:
        most = sorted((item for item in shares.items() if item[0] != learner), key=lambda item: -item[1])[:3]
        named = ", ".join(f"{name} {share:.1%}" for name, share in most)
        shown.print(printable(f"  {learner} learns from {named}"), highlight=False, soft_wrap=True)


def _teller(home: Any, shown: Any) -> Callable[[str], None]:
    from pfedeg.network.operations.supervisor import open_log

    def tell(text: str) -> None:
        shown.print(printable(text), highlight=False, soft_wrap=True)
        with open_log(home.path, "run") as log:
            log.write(f"{time.strftime('%Y-%m-%d %H:%M:%S')} {printable(text)}\n".encode())

    return tell


@click.group(context_settings=CONTEXT)
def client() -> None:
    """Take part in a federation with a graph of one's own.

    \b
    In this order:
      pfedeg client init me --name hospital --data hospital/ --server https://fed.example.org:8443 \\
        --ca ca.crt --secret alignment.secret
      (send me/client.pub to the server operator)
      pfedeg client start me
    """


@client.command("init", context_settings=CONTEXT)
@FOLDER
@click.option("--name", required=True, metavar="NAME", help="the name under which this client is enrolled")
@click.option("--data", required=True, type=click.Path(path_type=Path), help="its graph: a folder or a Parquet file")
@click.option("--server", required=True, metavar="URL", help="https://HOST:PORT")
@click.option("--ca", required=True, type=click.Path(path_type=Path), help="ca.crt, from the server operator")
@click.option("--secret", required=True, type=click.Path(path_type=Path), help="the secret of all clients")
@click.option(
    "--allow", multiple=True, metavar="ID", help="a plug-in (package.module:NAME) that runs may use; may be repeated"
)
@threads_option
def client_init(
    folder: Path,
    name: str,
    data: Path,
    server: str,
    ca: Path,
    secret: Path,
    allow: tuple[str, ...],
    threads: int | None,
) -> None:
    """Make a client's folder with a key pair of its own, and print the public key to enrol.

    \b
    Example:
      pfedeg client init me --name hospital --data hospital/ --server https://fed.example.org:8443 \\
        --ca ca.crt --secret alignment.secret
    """
    needs_flower()
    from pfedeg.network.operations.certificates import read_public, short
    from pfedeg.network.operations.client_folder import ClientHome

    files = {"ca": ca, "secret": secret}
    home = ClientHome.create(folder, name=name, data=data, server=server, **files, threads=threads, allowed=allow)
    click.echo(home.public.read_text().strip())
    say(f"send {home.public} to the server operator; the key in short, to compare: {short(read_public(home.public))}")
    say(f"when it is enrolled: pfedeg client start {folder}")


@client.command("allow", context_settings=CONTEXT)
@FOLDER
@click.argument("identifiers", metavar="[ID]...", nargs=-1)
@click.option("--remove", is_flag=True, help="allow them no longer; counts from the next run on")
def client_allow(folder: Path, identifiers: tuple[str, ...], remove: bool) -> None:
    """Let runs use plug-ins: methods, models, objectives or optimisers that are not built in. Without an ID: list them.

    A plug-in is code that runs at this client, with access to its graph. Install it first; allow only what you trust.

    \b
    Examples:
      pfedeg client allow me mypackage.mine:METHOD
      pfedeg client allow me mypackage.mine:METHOD --remove
    """
    needs_flower()
    from pfedeg.network.operations.client_folder import ClientHome

    home = ClientHome(folder)
    if identifiers:
        (home.disallow if remove else home.allow)(identifiers)
    elif remove:
        raise InputError("--remove: name the plug-ins to remove")
    listed = ", ".join(map(printable, home.allowed()))
    click.echo(f"allowed plug-ins: {listed or 'none'}")


@client.command("renew", context_settings=CONTEXT)
@FOLDER
def client_renew(folder: Path) -> None:
    """Make a new key pair for this client, which has to be enrolled in the place of the old one.

    \b
    Example:
      pfedeg client stop me && pfedeg client renew me
    """
    needs_flower()
    from pfedeg.network.operations.certificates import make_pair, read_public, short
    from pfedeg.network.operations.client_folder import ClientHome
    from pfedeg.network.operations.supervisor import watcher

    home = ClientHome(folder)
    if watcher(home.path):
        raise InputError(f"{folder}: is running; stop it first")
    make_pair(home.path, home.place.name)
    click.echo(home.public.read_text().strip())
    say(f"the key in short, to compare: {short(read_public(home.public))}")
    say("the server operator has to `pfedeg server remove` the old key and `enroll` this one")


@client.command("start", context_settings=CONTEXT)
@FOLDER
@click.option("--foreground", is_flag=True, help="stay in the foreground, as under systemd")
def client_start(folder: Path, foreground: bool) -> None:
    """Join the server, and join it again by itself after crashes and losses of the network.

    \b
    Example:
      pfedeg client start me
    """
    needs_flower()
    from pfedeg.network.operations.client_folder import ClientHome

    home = ClientHome(folder)
    if foreground:
        home.watch(stamped)
        return
    home.start()
    click.echo(f"{printable(home.place.name)} runs; see: pfedeg client status {folder}")


@client.command("work", context_settings=CONTEXT, hidden=True)
@FOLDER
def client_work(folder: Path) -> None:
    """Answer the server: what `client start` keeps alive."""
    needs_flower()
    from pfedeg.network.operations.client_folder import ClientHome

    ClientHome(folder).work(stamped)


@client.command("stop", context_settings=CONTEXT)
@FOLDER
def client_stop(folder: Path) -> None:
    """Leave the server.

    \b
    Example:
      pfedeg client stop me
    """
    needs_flower()
    from pfedeg.network.operations.client_folder import ClientHome
    from pfedeg.network.operations.supervisor import stop

    stopped = stop(ClientHome(folder).path)
    click.echo("stopped" if stopped else "it was not running")


@client.command("status", context_settings=CONTEXT)
@FOLDER
@json_option
def client_status(folder: Path, as_json: bool) -> None:
    """Show whether this client runs, whether it has joined, and its finished runs.

    \b
    Example:
      pfedeg client status me
    """
    needs_flower()
    from pfedeg.network.operations.client_folder import ClientHome

    home = ClientHome(folder)
    told = home.status()
    if as_json:
        click.echo(json.dumps(told, ensure_ascii=False))
        return
    detail = f": {told['detail']}" if told.get("detail") else ""
    click.echo(printable(f"{told['name']} at {told['server']}: {told['state']}{detail}"))
    click.echo(f"  key {told['key']}, fingerprint of the secret {told.get('secret', 'unknown')}")
    if told["allowed"]:
        click.echo(f"  allowed plug-ins: {', '.join(map(printable, told['allowed']))}")
    for name in told["unfinished"]:
        click.echo(f"  run that is not finished: pfedeg show {home.path / 'runs' / name}")
    for name in told["finished"]:
        click.echo(f"  finished run: pfedeg show {home.path / 'runs' / name}")
