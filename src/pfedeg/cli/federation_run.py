"""The command `pfedeg server run`, which trains with the enrolled clients."""

import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click

from pfedeg.cli.federation import FOLDER, check_flower
from pfedeg.cli.options import CONTEXT, SettingsCommand, console, json_option, preset_option, print_note, threads_option
from pfedeg.errors import InputError
from pfedeg.text import printable


@click.command("run", cls=SettingsCommand, context_settings=CONTEXT)
@FOLDER
@click.option("--resume", is_flag=True, help="continue the latest unfinished run, or the one in --out")
@click.option("--out", type=click.Path(path_type=Path), help="the run folder  [default: DIR/runs/NAME, a new name]")
@click.option("--quorum", type=click.IntRange(1), metavar="N", help="clients needed in a round  [default: all]")
@click.option("--timeout", type=click.FloatRange(0.1), default=600.0, metavar="S", help="seconds to wait for a client")
@click.option(
    "--absent-timeout",
    type=click.FloatRange(0.1),
    default=90.0,
    metavar="S",
    help="seconds to wait for a client that is offline or missed the last request",
)
@preset_option
@click.option("--config", "file", type=click.Path(path_type=Path), help="a TOML file of settings; flags override it")
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
    """Train with all enrolled clients.

    Waits until they are online. After Ctrl-C, --resume continues the run.

    \b
    Examples:
      pfedeg server run fed --method pfedeg-plus --model rotate --rounds 100
      pfedeg server run fed --resume
    """
    check_flower()
    from pfedeg.cli.tables import affinity_table, metrics_table, rounds_with_progress
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
        print_note(f"note: {remark}")
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
            for done in rounds_with_progress(training, terminal, config.method_type.label):
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
        print_note(f"{name} keeps the tables of round {at}: it missed the evaluation of round {result['best_round']}")
    for name, why in result.get("left_out", {}).items():
        print_note(f"{name} was left out and has no result: {why}")
    for name, why in result.get("missing", {}).items():
        print_note(
            f"{name} did not get its result ({why}); when it is online, run: pfedeg server run {folder} --resume"
        )
    up, down = _traffic(training)
    click.echo(f"rows sent by clients: {up:.1f} MB, to clients: {down:.1f} MB")
    click.echo(f"saved the run in {out}; the clients have the tables")


def _traffic(training: Any) -> tuple[float, float]:
    """Megabytes of rows from and to clients in all rounds."""
    up, down = (sum(line[kind] for line in training.history) / 1e6 for kind in ("bytes_up", "bytes_down"))
    return up, down


def _print_round(terminal: Any, training: Any, done: Any, missing: list[str]) -> None:
    """Print who responded, the traffic so far, and who learns from whom."""
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
