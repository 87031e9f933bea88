"""Keys, folders and commands of a federation between organisations, and one whole federation of real supervisor."""

import ast
import base64
import contextlib
import json
import os
import re
import signal
import socket
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

pytest.importorskip("flwr", reason="needs the flower extra")

from cryptography import x509

from pfedeg.cli.main import cli
from pfedeg.errors import InputError, RunError
from pfedeg.graphs.alignment import fingerprint
from pfedeg.graphs.federation import Federation
from pfedeg.graphs.naming import Naming
from pfedeg.network.operations import certificates as keys
from pfedeg.network.operations import supervisor
from pfedeg.network.operations.alignment_secret import make_secret, read_secret
from pfedeg.network.operations.client_folder import ClientConfig, ClientFolder, parse_address, read_graph
from pfedeg.network.operations.client_process import make_agent
from pfedeg.network.operations.nginx import PATHS, configuration, find_nginx
from pfedeg.network.operations.server_folder import ServerFolder
from pfedeg.network.operations.server_process import start
from pfedeg.processes import end_with_parent, memory_of_machine


@pytest.fixture
def server(tmp_path: Path) -> ServerFolder:
    return ServerFolder.create(tmp_path / "server", "localhost", 18700)


@pytest.fixture
def client(tmp_path: Path, server: ServerFolder) -> ClientFolder:
    make_secret(tmp_path / "secret")
    return make_client(tmp_path, "atlas")


def make_client(tmp_path: Path, folder: str, **more: Any) -> ClientFolder:
    files = {"ca": tmp_path / "server" / "ca.crt", "secret": tmp_path / "secret"}
    files |= {name: more.pop(name) for name in files if name in more}
    usual = {"name": folder, "data": "world", "server": "https://localhost:18700"}
    return ClientFolder.create(tmp_path / folder, ClientConfig(**usual | more), **files)


# Keys


def test_the_ca_vouches_for_its_own_server_only(tmp_path: Path, server: ServerFolder) -> None:
    other = ServerFolder.create(tmp_path / "other", "localhost", 18702)
    authority = keys.read_certificate(server.path / "ca.crt")
    signer, stranger = keys.Signer.of_server(server.path), keys.Signer.of_server(other.path)
    key = keys.certified(authority, signer.certificate)
    assert key is not None
    assert keys.signed_by(key, b"body", signer.sign(b"body"))
    assert not keys.signed_by(key, b"body!", signer.sign(b"body"))
    assert not keys.signed_by(key, b"body", stranger.sign(b"body"))
    assert keys.certified(authority, stranger.certificate) is None
    assert keys.certified(authority, b"rubbish") is None
    own = (server.path / "ca.crt").read_bytes()
    assert keys.certified(authority, own) is None, "the CA itself is not a server"


def test_a_certificate_that_has_expired_is_not_trusted(server: ServerFolder, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(keys, "DAYS_OF_SERVER", 0)
    keys.certify_server(server.path, "localhost")
    authority = keys.read_certificate(server.path / "ca.crt")
    found = x509.load_pem_x509_certificate((server.path / "server.crt").read_bytes())
    assert found.issuer == authority.subject
    assert keys.certified(authority, (server.path / "server.crt").read_bytes()) is None


def test_a_new_server_key_is_trusted_by_clients_that_have_the_ca(server: ServerFolder) -> None:
    before = (server.path / "server.crt").read_bytes()
    keys.certify_server(server.path, "localhost")
    after = (server.path / "server.crt").read_bytes()
    assert before != after
    assert keys.certified(keys.read_certificate(server.path / "ca.crt"), after) is not None


def test_private_files_are_private(server: ServerFolder, client: ClientFolder) -> None:
    private = [server.path / "ca.key", server.path / "server.key", client.path / "client.key", client.path / "secret"]
    for path in (*private, server.path, client.path):
        assert path.stat().st_mode & 0o077 == 0, path


def test_the_secret_is_read_back_and_not_overwritten(tmp_path: Path) -> None:
    path = tmp_path / "secret"
    make_secret(path)
    secret = read_secret(path)
    assert len(secret) == 32
    assert path.stat().st_mode & 0o077 == 0
    with pytest.raises(InputError, match="a secret is never overwritten"):
        make_secret(path)
    assert read_secret(path) == secret
    assert fingerprint(secret) == fingerprint(secret)
    assert fingerprint(secret) != fingerprint(secret[::-1])


@pytest.mark.parametrize("content", ["", "pfedeg-secret-1:", "pfedeg-secret-1:AAAA", "hello", "pfedeg-secret-1:!!!!"])
def test_what_is_no_secret_is_refused(tmp_path: Path, content: str) -> None:
    (tmp_path / "secret").write_text(content)
    with pytest.raises(InputError, match="not an alignment secret"):
        read_secret(tmp_path / "secret")


# Folders


def test_enrolling_checks_names_and_keys(server: ServerFolder, client: ClientFolder, tmp_path: Path) -> None:
    server.enroll("atlas", client.public)
    assert list(server.enrollment.keys()) == ["atlas"]
    other = make_client(tmp_path, "commerce")
    with pytest.raises(InputError, match="'atlas' is already enrolled"):
        server.enroll("atlas", other.public)
    with pytest.raises(InputError, match="already belongs to 'atlas'"):
        server.enroll("commerce", client.public)
    with pytest.raises(InputError, match="this is a private key, which must stay with its client"):
        server.enroll("commerce", other.path / "client.key")
    with pytest.raises(InputError, match="not a public key"):
        server.enroll("commerce", other.path / "client.json")
    with pytest.raises(InputError, match="cannot be read"):
        server.enroll("commerce", tmp_path / "nothing.pub")
    with pytest.raises(InputError, match="not enrolled; did you mean 'atlas'"):
        server.remove("Atlas")
    server.remove("atlas")
    assert not server.enrollment.keys()
    assert not server.enrollment.contains("atlas")


def test_a_client_is_enrolled_with_a_number_of_triples(server: ServerFolder, client: ClientFolder) -> None:
    server.enroll("atlas", client.public)
    assert server.enrollment.triples() == {}
    server.remove("atlas")
    server.enroll("atlas", client.public, 500)
    assert server.enrollment.triples() == {"atlas": 500}
    (file,) = (server.path / "enrolled").glob("*.json")
    for wrong in ("-1", "true", '"many"'):
        file.write_text(f'{{"name": "atlas", "triples": {wrong}}}')
        with pytest.raises(InputError, match=r"damaged \(triples is .*enroll the client again"):
            server.enrollment.triples()


def test_a_weak_or_foreign_key_is_not_enrolled(server: ServerFolder, tmp_path: Path) -> None:
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", tmp_path / "key"], check=True)
    with pytest.raises(InputError, match="not a P-384 key"):
        server.enroll("x", tmp_path / "key.pub")


@pytest.mark.parametrize("url", ["http://h:1", "h:1", "https://h", "https://h:1/path", "https://:1", "https://h:x", ""])
def test_a_servers_address_is_https_with_a_port(url: str) -> None:
    with pytest.raises(InputError, match="expected https://HOST:PORT"):
        parse_address(url)


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"name": " "}, "needs a name"),
        ({"data": "nowhere"}, "no such file or folder"),
        ({"name": "nobody"}, "none called 'nobody'"),
        ({"server": "http://localhost:1"}, "expected https"),
        ({"ca": Path(__file__)}, "not a certificate"),
        ({"secret": Path(__file__)}, "not an alignment secret"),
    ],
)
def test_a_client_is_not_made_from_wrong_parts(
    tmp_path: Path, server: ServerFolder, wrong: dict[str, Any], message: str
) -> None:
    make_secret(tmp_path / "secret")
    with pytest.raises(InputError, match=message):
        make_client(tmp_path, "atlas", **wrong)
    assert not (tmp_path / "atlas").exists()


@pytest.mark.parametrize(("host", "port"), [("", 1), ("a b", 1), ("h;", 1), ("h", 0), ("h", 65535)])
def test_a_server_is_not_made_from_wrong_parts(tmp_path: Path, host: str, port: int) -> None:
    with pytest.raises(InputError):
        ServerFolder.create(tmp_path / "server", host, port)
    assert not (tmp_path / "server").exists()


def test_the_proxy_lets_through_what_clients_need_and_nothing_else(tmp_path: Path) -> None:
    text = configuration(tmp_path, "fed.example.org", 8443, 8444)
    refusal, passing = r"if \(\$enrolled = 0\) \{ return 401; \}", r"proxy_pass https://127\.0\.0\.1:8444(\S+);"
    pattern = rf"location = (\S+) \{{\s+{refusal}\s+client_max_body_size (\S+);\s+{passing}\s+\}}"
    passed = re.findall(pattern, text)
    assert passed == [(f"/v1/fleet/{path}", size, f"/v1/fleet/{path}") for path, size in PATHS.items()]
    assert [path for path, size in PATHS.items() if size.endswith("m")] == ["push-object"]
    assert len(re.findall("location", text)) == len(PATHS) + 1
    assert "location / { return 404; }" in text
    assert "listen 8443 ssl;" in text
    assert "listen 127.0.0.1:8443 ssl;" in configuration(tmp_path, "localhost", 8443, 8444)


@pytest.mark.skipif(find_nginx() is None, reason="nginx is not installed")
def test_nginx_takes_its_configuration(server: ServerFolder) -> None:
    (server.path / "run").mkdir()
    (server.path / "log").mkdir()
    command = [str(find_nginx()), "-t", "-e", f"{server.path}/log/nginx.log", "-c", f"{server.path}/nginx.conf"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=20)
    assert done.returncode == 0, done.stderr


def test_the_proxy_knows_the_keys_of_enrolled_clients(server: ServerFolder, client: ClientFolder) -> None:
    file = server.path / "enrolled.map"
    assert file.read_text() == ""
    key = keys.identity(server.enroll("atlas", client.public))
    assert file.read_text() == f'"{base64.b64encode(key).decode()}" 1;\n'
    server.remove("atlas")
    assert file.read_text() == ""
    for name in ("enrolled.map", "nginx.conf"):  # of an earlier version
        (server.path / name).write_text("old") if name == "nginx.conf" else (server.path / name).unlink()
    server.configure_proxy()
    assert "include" in (server.path / "nginx.conf").read_text()
    assert file.exists()


def test_processes_that_we_start_cannot_take_all_memory(tmp_path: Path) -> None:
    code = "import resource; print(resource.getrlimit(resource.RLIMIT_DATA)[0]); b = bytearray(1 << 30)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, **end_with_parent(512 << 20))
    assert done.stdout == f"{512 << 20}\n"
    assert "MemoryError" in done.stderr
    child = supervisor.Child("limited", [sys.executable, "-c", code.partition("; b")[0]])
    supervisor._check(tmp_path, child, lambda text: None)
    assert child.process is not None
    child.process.wait(20)
    assert 0 < int((tmp_path / "log" / "limited.log").read_text()) < memory_of_machine()


def test_without_the_proxy_a_server_stays_on_loopback(tmp_path: Path) -> None:
    home = ServerFolder.create(tmp_path / "server", "fed.example.org", 18704)
    with pytest.raises(InputError, match="--no-proxy: only for a --host on loopback"):
        start(home, proxy=False)


def test_without_nginx_the_hint_says_what_to_install(server: ServerFolder, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pfedeg.network.operations.server_process.find_nginx", lambda: None)
    with pytest.raises(InputError, match=r"nginx is not installed.*apt install nginx-light, or add --no-proxy"):
        start(server)


def test_pseudonyms_are_stable_and_different_for_every_learner(tmp_path: Path) -> None:
    home = ServerFolder.create(tmp_path / "server", "localhost", 18706, pseudonyms=True)
    seen = {learner: [home.name_for(learner, other) for other in ("a", "b", "c")] for learner in ("a", "b")}
    assert seen["a"][0] == "a"
    assert not {"b", "c"} & set(seen["a"])
    assert seen["a"][2] != seen["b"][2]
    assert ServerFolder(home.path).name_for("a", "c") == seen["a"][2]
    assert ServerFolder.create(tmp_path / "open", "localhost", 18708).name_for("a", "c") == "c"


# Plug-ins


def test_an_operator_allows_plugins(tmp_path: Path, client: ClientFolder) -> None:
    folder, mine = str(client.path), ("plugins:METHOD", "plugins:MODEL")
    assert "allowed plug-ins: none" in CliRunner().invoke(cli, ["client", "allow", folder]).output
    assert ", ".join(mine) in CliRunner().invoke(cli, ["client", "allow", folder, *mine]).output
    assert ClientFolder(client.path).allowed() == mine
    assert "allowed plug-ins: plugins:METHOD" in CliRunner().invoke(cli, ["client", "status", folder]).output
    CliRunner().invoke(cli, ["client", "allow", folder, "plugins:METHOD", "--remove"])
    assert client.allowed() == ("plugins:MODEL",)
    assert make_client(tmp_path, "commerce", allowed=mine).allowed() == mine
    with pytest.raises(InputError, match="'plugins:METHOD' is not among the allowed; did you mean 'plugins:MODEL'"):
        client.disallow(["plugins:METHOD"])


@pytest.mark.parametrize(
    ("identifier", "message"),
    [
        ("fede", "fede: is a built-in method, which needs no permission"),
        (
            "nowhere.mine:METHOD",
            "nowhere.mine:METHOD: cannot import nowhere.mine: No module named 'nowhere'; "
            "install it, put its folder on PYTHONPATH, or run the command in its folder",
        ),
        ("plugins:Settings", "plugins:Settings: no method, model, objective or optimiser of this name is installed"),
        ("mine", "mine: no method, model, objective or optimiser of this name is installed"),
    ],
)
def test_what_is_no_plugin_is_not_allowed(tmp_path: Path, client: ClientFolder, identifier: str, message: str) -> None:
    with pytest.raises(InputError, match=f"^{re.escape(message)}$"):
        client.allow(["plugins:METHOD", identifier])
    assert client.allowed() == ()
    with pytest.raises(InputError, match=f"^{re.escape(message)}$"):
        make_client(tmp_path, "commerce", allowed=(identifier,))
    assert not (tmp_path / "commerce").exists()


def test_a_folder_without_a_list_allows_nothing(client: ClientFolder) -> None:
    file = client.path / "client.json"
    content = json.loads(file.read_text())
    file.write_text(json.dumps({name: content[name] for name in ("name", "data", "server", "threads")}))
    assert "allowed" not in file.read_text()
    assert ClientFolder(client.path).allowed() == ()


@pytest.mark.parametrize(
    "content", ["", "[]", '{"name": 3}', '{"name": "a", "data": "b", "server": "c", "allowed": [1]}']
)
def test_a_damaged_folder_is_named(server: ServerFolder, client: ClientFolder, content: str) -> None:
    for folder, file in ((client.path, "client.json"), (server.path, "server.json")):
        (folder / file).write_text(content)
        with pytest.raises(InputError, match=rf"{file}: damaged"):
            type(client if file == "client.json" else server)(folder)


# Processes


def test_a_watcher_is_alone_and_can_be_found(tmp_path: Path) -> None:
    assert supervisor.find(tmp_path) is None
    with supervisor.lock(tmp_path):
        assert supervisor.find(tmp_path) == os.getpid()
        with pytest.raises(InputError, match="is already running"), supervisor.lock(tmp_path):
            pass
    assert supervisor.find(tmp_path) is None
    assert supervisor.stop(tmp_path) is False


def test_what_does_not_start_says_where_to_look(tmp_path: Path) -> None:
    with pytest.raises(RunError, match=r"did not start; for the reason, see the end of .*watch\.log"):
        supervisor.start(tmp_path, ["server", "start", str(tmp_path / "nothing"), "--foreground"], lambda: False)
    assert "not a server's folder" in (tmp_path / "log" / "watch.log").read_text()


# Commands


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["server", "status", "nowhere"], "not a server's folder"),
        (["client", "start", "nowhere"], "not a client's folder"),
        (["server", "run", "nowhere", "--method", "fede"], "not a server's folder"),
        (["server", "init", "x", "--host", "h", "--port", "99999"], "must be 1 to 65534"),
        (["server", "run"], "Missing argument 'DIR'"),
    ],
)
def test_bad_input_is_one_line_and_exit_code_2(tmp_path: Path, words: list[str], message: str) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "pfedeg", *words], capture_output=True, text=True, cwd=tmp_path, timeout=60
    )
    assert done.returncode == 2
    assert message in done.stderr
    assert len(done.stderr.splitlines()) == 1


def test_a_server_that_does_not_run_says_so(server: ServerFolder) -> None:
    shown = CliRunner().invoke(cli, ["server", "status", str(server.path)])
    assert "not running" in shown.output
    assert "no client is enrolled" in shown.output
    assert "was not running" in CliRunner().invoke(cli, ["server", "stop", str(server.path)]).output


def test_every_command_of_the_operators_has_help_with_an_example() -> None:
    for group in ("server", "client"):
        shown = CliRunner().invoke(cli, [group, "--help"])
        assert shown.exit_code == 0
        for name in cli.commands[group].commands:  # type: ignore[attr-defined]
            text = CliRunner().invoke(cli, [group, name, "--help"]).output
            assert "Example" in text or name == "work", (group, name)


# Flower


@pytest.mark.parametrize("found", ["1.40.2", "1.43.0", "2.0"])
def test_an_untested_version_of_flower_is_refused(
    server: ServerFolder, monkeypatch: pytest.MonkeyPatch, found: str
) -> None:
    monkeypatch.setattr("pfedeg.network.flower_install.version", lambda name: found)
    shown = CliRunner().invoke(cli, ["server", "status", str(server.path)])
    assert isinstance(shown.exception, InputError)
    text = f"flwr {found} is installed; pfedeg works with flwr 1.41 and 1.42 only: pip install 'pfedeg[flower]'"
    assert str(shown.exception) == text


def test_the_tested_versions_of_flower_are_those_that_are_installed() -> None:
    from pfedeg.network.flower_install import TESTED, check_flower_version

    project = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert "flwr>=1.41,<1.43" in project["optional-dependencies"]["flower"]
    assert TESTED == ("1.41", "1.42")
    check_flower_version()


def test_without_flower_the_extra_is_named(server: ServerFolder, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pfedeg.extras.is_installed", lambda name: name != "flwr")
    shown = CliRunner().invoke(cli, ["client", "status", str(server.path)])
    assert str(shown.exception) == "a federation over a network needs flwr: pip install 'pfedeg[flower]'"


def test_every_import_from_flower_is_explained() -> None:
    source = (Path(__file__).parents[2] / "src" / "pfedeg" / "network" / "flower.py").read_text(encoding="utf-8")
    tree = ast.parse(source)
    explained = re.findall(r"^\| ((?:flwr|supercore)[^|]*) \|", ast.get_docstring(tree) or "", re.MULTILINE)
    names = [name.strip() for row in explained for name in row.split(",")]
    modules = [node.module for node in tree.body if isinstance(node, ast.ImportFrom) and "flwr" in str(node.module)]
    assert len(modules) > 10
    for module in modules:
        assert any(module == name or (name.endswith(".*") and module.startswith(name[:-1])) for name in names), module


def test_an_array_cannot_be_one_piece_many_times() -> None:
    from flwr.app import Array
    from flwr.supercore.inflatable.inflatable_object import get_all_nested_objects

    from pfedeg.network.channel import InvalidMessageError
    from pfedeg.network.flower import Incoming, _content
    from pfedeg.network.flower_channels import _Arriving

    content = _content(bytes(1000))
    objects = {name: each.deflate() for name, each in get_all_nested_objects(content).items()}
    (name,) = [name for name, raw in objects.items() if raw.startswith(Array.__qualname__.encode() + b" ")]
    before = len(objects[name])
    objects[name] = objects[name].replace(b'"arraychunk_ids": [0]', b'"arraychunk_ids": [' + b"0, " * 500 + b"0]")
    assert len(objects[name]) > before

    class Source:
        def fetch_piece(self, incoming: Incoming, piece: str) -> bytes:
            return objects[piece]

    incoming = Incoming(content.object_id, "", 1, list(objects), "", None)
    with pytest.raises(InvalidMessageError, match="of more than 100,000 bytes"):
        _Arriving(incoming, Source(), 100_000).read()  # type: ignore[arg-type]


def test_no_proxy_of_the_environment_is_used(server: ServerFolder, monkeypatch: pytest.MonkeyPatch) -> None:
    from pfedeg.network.channel import UnreachableError
    from pfedeg.network.flower_channels import FlowerServerChannel

    asked = []
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen()
        listener.settimeout(0.5)
        monkeypatch.setenv("HTTPS_PROXY", f"http://127.0.0.1:{listener.getsockname()[1]}")
        monkeypatch.setenv("https_proxy", f"http://127.0.0.1:{listener.getsockname()[1]}")
        channel = FlowerServerChannel("127.0.0.1:9", str(server.path / "ca.crt"))
        with pytest.raises(UnreachableError):
            channel.clients()
        channel.close()
        with contextlib.suppress(TimeoutError):
            asked.append(listener.accept())
    assert not asked


def test_a_request_to_stop_is_not_taken_for_an_error_of_the_network() -> None:
    from pfedeg.network.http import translated_errors

    with pytest.raises(SystemExit), translated_errors():
        sys.exit(0)


# Everything together


@pytest.mark.usefixtures("sigint_enabled")
def test_a_whole_federation_of_processes_gives_the_embedded_result(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "pfedeg.cli.federation_demo", "--out", str(tmp_path / "demo"), "--rounds", "2"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    try:
        output, errors = process.communicate(timeout=120)
    except subprocess.TimeoutExpired:
        process.send_signal(signal.SIGINT)  # it stops its server and its clients
        output, errors = process.communicate(timeout=60)
    assert process.returncode == 0, output[-2000:] + errors[-2000:]
    assert output.count("tables identical, bit for bit, to those of the same run in one process") == 3
    assert "0 of the 1,136 names of more than six letters" in output
    assert "proxy: nginx" in output or find_nginx() is None
    assert "Done in" in output


# Names


@pytest.fixture
def named(tmp_path: Path, server: ServerFolder) -> Path:
    """A client's data with IRIs, labels and a map."""
    (tmp_path / "data").mkdir()
    rows = [f"http://x/{i}\tborders\thttp://x/{(i + 1) % 5}\n" for i in range(5)] + [" Peru\tborders\tperu\n"]
    (tmp_path / "data" / "triples.tsv").write_text("".join(rows))
    (tmp_path / "data" / "labels.tsv").write_text("".join(f"http://x/{i}\tPlace {i}\n" for i in range(5)))
    (tmp_path / "names.tsv").write_text("http://x/0\tNowhere\nperu\tPeru\n")
    make_secret(tmp_path / "secret")
    return tmp_path


def invoke(*words: Any) -> Any:
    return CliRunner().invoke(cli, [*map(str, words)])


def make_named(where: Path, *words: Any) -> Any:
    keys = ("--server", "https://localhost:18700", "--ca", where / "server" / "ca.crt", "--secret", where / "secret")
    return invoke("client", "init", where / "me", "--name", "me", "--data", where / "data", *keys, *words)


def test_names_are_checked_when_a_client_is_made(named: Path) -> None:
    text = make_named(named).stderr
    assert "7 entities, of which 5 have an IRI as name, 5 of these with a label; e.g. 'http://x/0'" in text
    assert "names with surrounding spaces: 1, e.g. ' Peru'" in text
    assert "if other clients use labels as names: --names label" in text
    assert "me: ' Peru', 'peru' (several)" in text


def test_tokens_are_made_of_rewritten_names(named: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    done = make_named(named, "--names", "label", "--map", named / "names.tsv")
    assert done.exit_code == 0, done.exception
    assert "names replaced by their label: 4, e.g. 'http://x/1' → 'Place 1'" in done.stderr
    assert "names changed by the map: 2, e.g. 'http://x/0' → 'Nowhere'" in done.stderr
    graph = make_agent(ClientFolder(named / "me"), lambda text: None)._graph(0)
    assert graph.entities == ("Nowhere", "Peru", "Place 1", "Place 2", "Place 3", "Place 4")
    twin = Federation.read(named / "data", 0, Naming.of("label", (), named / "names.tsv")).graphs["data"]
    assert graph == twin


def test_names_can_be_changed_later(named: Path) -> None:
    make_named(named)
    done = invoke("client", "names", named / "me", "--prefix", "x:http://x/", "--names", "local")
    assert done.exit_code == 0, done.exception
    assert "names replaced by their local name: 5, e.g. 'http://x/0' → '0'" in done.stdout
    home = ClientFolder(named / "me")
    assert (home.config.names, home.config.prefixes) == ("local", ("x:http://x/",))
    assert "0" in read_graph(home.config, 0).entities
    assert "if other clients use" not in invoke("client", "names", named / "me").stdout


def test_a_wrong_map_is_refused_before_anything_is_made(named: Path) -> None:
    (named / "names.tsv").write_text("a\tb\nb\ta\n")
    done = make_named(named, "--map", named / "names.tsv")
    assert "the names form a cycle: 'a' → 'b' → 'a'" in str(done.exception)
    assert not (named / "me").exists()
    make_named(named)
    before = (named / "me" / "client.json").read_text()
    assert "cycle" in str(invoke("client", "names", named / "me", "--map", named / "names.tsv").exception)
    assert (named / "me" / "client.json").read_text() == before


# Limits


def test_limits_are_written_and_can_be_edited(client: ClientFolder) -> None:
    file = client.path / "client.json"
    content = json.loads(file.read_text())
    assert content["limits"]["dim"] == 1024
    assert content["limits"]["methods"]
    content["limits"]["epochs"] = 7
    file.write_text(json.dumps(content))
    assert client.limits().epochs == 7
    client.allow(["plugins:METHOD"])
    assert ClientFolder(client.path).limits().epochs == 7, "an edit survives other commands"
    content["limits"]["epoch"] = 7
    file.write_text(json.dumps(content))
    with pytest.raises(InputError, match=r"client\.json: unknown limit 'epoch'; did you mean 'epochs'"):
        client.limits()


def test_a_folder_of_an_earlier_version_gets_the_default_limits(client: ClientFolder) -> None:
    file = client.path / "client.json"
    content = json.loads(file.read_text())
    chosen = content.pop("limits")
    file.write_text(json.dumps(content))
    old = ClientFolder(client.path)
    assert old.limits().dim == 1024, "also before it starts"
    old._check()
    assert json.loads(file.read_text())["limits"] == chosen
