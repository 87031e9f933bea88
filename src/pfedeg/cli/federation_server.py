"""`pfedeg server …`: set up and run the server of a federation, and its runs."""

import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click

from pfedeg.cli.federation import FOLDER, check_flower, log_line
from pfedeg.cli.options import CONTEXT, Settings, console, json_option, say, threads_option
from pfedeg.errors import InputError
from pfedeg.text import printable


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
@click.option("--host", required=True, metavar="H", help="name or address at which clients reach this machine")
@click.option("--port", required=True, type=int, metavar="P", help="port for clients; the next one is used on loopback")
@click.option("--pseudonyms", is_flag=True, help="show clients to each other under pseudonyms only")
def server_init(folder: Path, host: str, port: int, pseudonyms: bool) -> None:
    """Make a server's folder: a CA, the server's certificate, the proxy's configuration.

    \b
    Example:
      pfedeg server init fed --host fed.example.org --port 8443
    """
    check_flower()
    from pfedeg.network.operations.server_folder import ServerFolder

    home = ServerFolder.create(folder, host, port, pseudonyms)
    click.echo(f"made {folder}; send {home.path / 'ca.crt'} to the clients over a tamper-proof channel")
    say(f"next: pfedeg server enroll {folder} NAME NAME.pub")


@server.command("enroll", context_settings=CONTEXT)
@FOLDER
@click.argument("name")
@click.argument("public", metavar="KEY.pub", type=click.Path(path_type=Path))
def server_enroll(folder: Path, name: str, public: Path) -> None:
    """Enrol a client under a NAME with the public key that it sent. Works while the server is running.

    A key that was removed can be enrolled again only after the server was stopped and started.

    \b
    Example:
      pfedeg server enroll fed hospital hospital.pub
    """
    check_flower()
    from pfedeg.network.operations.certificates import short
    from pfedeg.network.operations.server_folder import ServerFolder

    key = ServerFolder(folder).enroll(name, public)
    click.echo(f"enrolled {printable(name)}; compare the fingerprint of its key with the client: {short(key)}")


@server.command("remove", context_settings=CONTEXT)
@FOLDER
@click.argument("name")
def server_remove(folder: Path, name: str) -> None:
    """Refuse a client from its next request on. Works while the server is running.

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
    """Make a new key and certificate for the server, signed by the same CA. Clients need no change.

    \b
    Example:
      pfedeg server stop fed && pfedeg server renew fed && pfedeg server start fed
    """
    check_flower()
    from pfedeg.network.operations.certificates import certify_server
    from pfedeg.network.operations.server_folder import ServerFolder
    from pfedeg.network.operations.supervisor import check_stopped

    home = ServerFolder(folder)
    check_stopped(home.path)
    certify_server(home.path, home.config.host)
    click.echo("made a new key and certificate for the server")


@server.command("start", context_settings=CONTEXT)
@FOLDER
@click.option("--foreground", is_flag=True, help="stay in the foreground, for systemd")
@click.option("--no-proxy", is_flag=True, help="run without nginx; only for a --host on loopback")
def server_start(folder: Path, foreground: bool, no_proxy: bool) -> None:
    """Start the SuperLink and the proxy in front of it; both are restarted if they die.

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
    """Show whether the server is running, which clients are enrolled and online, and the runs.

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
    for name, about in status["clients"].items():
        online = f"online since {about['since'][:19].replace('T', ' ')} UTC" if about["online"] else "offline"
        click.echo(f"  {printable(name)}: {online}, key {about['key']}")
    if not status["clients"]:
        click.echo("  no client is enrolled")
    for name, state in status["runs"].items():
        click.echo(f"  run {name}: {state}")


@server.command("run", cls=Settings, context_settings=CONTEXT)
@FOLDER
@click.option("--resume", is_flag=True, help="continue the latest unfinished run, or the one in --out")
@click.option("--out", type=click.Path(path_type=Path), help="the run folder  [DIR/runs/NAME, a new name]")
@click.option("--quorum", type=click.IntRange(1), metavar="N", help="clients that must respond in a round  [all]")
@click.option(
    "--timeout", type=click.FloatRange(0.1), default=600.0, metavar="S", help="seconds to wait for a client  [600]"
)
@click.option(
    "--absent-timeout",
    type=click.FloatRange(0.1),
    default=90.0,
    metavar="S",
    help="seconds to wait for a client that is offline or missed the last request  [90]",
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
    timeout: float,
    absent_timeout: float,
    preset: str | None,
    file: Path | None,
    threads: int | None,
    as_json: bool,
    **flags: Any,
) -> None:
    """Train with all enrolled clients. Waits until they are online; after Ctrl-C, --resume continues the run.

    \b
    Examples:
      pfedeg server run fed --method pfedeg-plus --model rotate --rounds 100
      pfedeg server run fed --resume
    """
    check_flower()
    from pfedeg.cli.tables import affinity_table, metrics_table, watch
    from pfedeg.network.operations.server_folder import ServerFolder
    from pfedeg.network.operations.start_run import start_run
    from pfedeg.network.request_manager import WaitPolicy
    from pfedeg.network.server_run import new_name
    from pfedeg.training.config import configure
    from pfedeg.training.run_folder import RunFolder

    home, terminal = ServerFolder(folder), console(stderr=True)
    log = _make_log(home, terminal)
    given = {name: value for name, value in flags.items() if value is not None}
    config, remarks = configure(flags, preset, file)
    for remark in remarks:
        say(f"note: {remark}")
    if resume and out is None:
        left = [name for name, state in home.runs().items() if state != "finished"]
        if not left:
            raise InputError(f"{folder}: no unfinished run; leave out --resume to start a new one")
        out = home.path / "runs" / left[-1]
    if resume and out is not None and not given and preset is None and file is None:
        config = RunFolder.open(out).config()
    name = new_name()
    out = out or home.path / "runs" / name
    policy = WaitPolicy(quorum or 0, timeout, absent_timeout)
    with home.channel() as channel:
        try:
            training = start_run(
                home, channel, config, out, name=name, resume=resume, policy=policy, threads=threads, log=log
            )
        except KeyboardInterrupt:
            log("interrupted before the first round")
            raise
        log(f"run {training.name}: {config.title}, up to {config.rounds} rounds")
        try:
            for done in watch(training, terminal, config.method):
                missing = [name for name in done.selected if name not in done.loss]
                if missing or done.metrics is not None:
                    _print_round(terminal, training, done, missing)
        except KeyboardInterrupt:
            log(f"interrupted after round {training.rounds_done}; continue with: pfedeg server run {folder} --resume")
            raise
        log(f"run {training.name}: finished")
    result = training.result or {}
    if as_json:
        click.echo(json.dumps(result, ensure_ascii=False))
        return
    title = f"{config.title}: test metrics of round {result['best_round']} of {result['rounds']}"
    console().print(metrics_table(title, {"": result["test"]}))
    affinity = training.affinity()
    if affinity:
        console().print(affinity_table(affinity))
    for name, at in result.get("tables_of_round", {}).items():
        say(f"{name} keeps the tables of round {at}: it missed the evaluation of round {result['best_round']}")
    for name, why in result.get("missing", {}).items():
        say(f"{name} lacks its result ({why}); once it is online: pfedeg server run {folder} --resume")
    up, down = _traffic(training)
    click.echo(f"rows sent by clients: {up:.1f} MB, to clients: {down:.1f} MB")
    click.echo(f"the run is in {out}; the clients have the tables")


def _traffic(training: Any) -> tuple[float, float]:
    """Megabytes of rows from and to clients in all rounds."""
    up, down = (sum(line[kind] for line in training.history) / 1e6 for kind in ("bytes_up", "bytes_down"))
    return up, down


def _print_round(terminal: Any, training: Any, done: Any, missing: list[str]) -> None:
    """Who responded, the traffic so far, and who learns from whom."""
    without = f", without {', '.join(missing)}" if missing else ""
    text = f"round {done.number}: {len(done.loss)} of {len(done.selected)} responded{without}"
    up, down = _traffic(training)
    text += f"; {up:.1f} MB up, {down:.1f} MB down so far"
    terminal.print(printable(text), highlight=False, soft_wrap=True)
    close = training.history[-1].get("affinity", {})
    for learner, shares in list(close.items())[:10]:
        most = sorted((item for item in shares.items() if item[0] != learner), key=lambda item: -item[1])[:3]
        named = ", ".join(f"{name} {share:.1%}" for name, share in most)
        terminal.print(printable(f"  {learner} learns from {named}"), highlight=False, soft_wrap=True)


def _make_log(home: Any, terminal: Any) -> Callable[[str], None]:
    """Print lines to the terminal and append them to log/run.log."""
    from pfedeg.network.operations.supervisor import open_log

    def write(text: str) -> None:
        terminal.print(printable(text), highlight=False, soft_wrap=True)
        with open_log(home.path, "run") as file:
            file.write(f"{time.strftime('%Y-%m-%d %H:%M:%S')} {printable(text)}\n".encode())

    return write
