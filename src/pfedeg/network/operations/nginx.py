"""The reverse proxy: TLS towards clients, only what enrolled clients need of the SuperLink, and little for strangers.

Flower's requests name the public key that has signed them. nginx refuses those of other keys before it reads a body; it
knows keys from a file with a line per enrolled client. The SuperLink then checks the signature.
"""

import base64
import ipaddress
import os
import shutil
from collections.abc import Iterable
from pathlib import Path

PATHS = {  # and the largest body of a request
    "activate-node": "16k",
    "deactivate-node": "16k",
    "send-node-heartbeat": "16k",
    "pull-messages": "16k",
    "push-messages": "512k",
    "pull-object": "16k",
    "push-object": "6m",  # a piece of at most 5 MiB
    "confirm-message-received": "16k",
}
CONNECTIONS = 4096
KEYS = "enrolled.map"  # in the server's folder


def configuration(folder: Path, host: str, port: int, superlink_port: int) -> str:
    """The configuration for a server's folder; it needs no other file and no root."""
    listen = f"127.0.0.1:{port}" if is_loopback(host) else f"{port}"
    temporary = "\n".join(
        f"    {kind}_temp_path {folder}/run/{kind};" for kind in ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")
    )
    locations = "\n".join(
        f"        location = /v1/fleet/{path} {{\n"
        f"            if ($enrolled = 0) {{ return 401; }}\n"
        f"            client_max_body_size {size};\n"
        f"            proxy_pass https://127.0.0.1:{superlink_port}/v1/fleet/{path};\n"
        f"        }}"
        for path, size in PATHS.items()
    )
    import resource  # not on Windows

    files = min(2 * CONNECTIONS + 64, resource.getrlimit(resource.RLIMIT_NOFILE)[1])
    return f"""# Written by `pfedeg server start`. Only enrolled clients reach the paths below.
daemon off;
worker_processes 1;
pid {folder}/run/nginx.pid;
error_log {folder}/log/nginx.log warn;
worker_rlimit_nofile {files};
worker_shutdown_timeout 30s;
events {{ worker_connections {CONNECTIONS}; }}
http {{
    map_hash_bucket_size 1024;
    map $status $refused {{ ~^[23] 0; default 1; }}
    access_log {folder}/log/refused.log combined if=$refused;
    server_tokens off;
    map $http_flwr_public_key $enrolled {{
        default 0;
        include {folder}/{KEYS};
    }}
{temporary}
    limit_conn_zone $binary_remote_addr zone=addresses:1m;
    limit_req_zone $binary_remote_addr zone=requests:1m rate=200r/s;
    server {{
        listen {listen} ssl;
        ssl_certificate {folder}/server.crt;
        ssl_certificate_key {folder}/server.key;
        ssl_protocols TLSv1.2 TLSv1.3;
        error_page 497 =400 /;
        client_max_body_size 16k;
        client_header_buffer_size 2k;
        large_client_header_buffers 2 8k;
        client_header_timeout 10s;
        client_body_timeout 30s;
        send_timeout 30s;
        keepalive_timeout 30s;
        lingering_timeout 2s;
        lingering_time 4s;
        reset_timedout_connection on;
        limit_conn addresses 64;
        limit_req zone=requests burst=400 nodelay;
        if ($request_method != POST) {{ return 405; }}
        proxy_request_buffering off;
        proxy_max_temp_file_size 0;
        proxy_http_version 1.1;
        proxy_set_header Host localhost;
        proxy_set_header Connection "";
        proxy_ssl_trusted_certificate {folder}/ca.crt;
        proxy_ssl_verify on;
        proxy_ssl_name localhost;
        proxy_read_timeout 120s;
{locations}
        location / {{ return 404; }}
    }}
}}
"""


def enrolled_keys(keys: Iterable[bytes]) -> str:
    """The content of the file with the public keys (PEM) of enrolled clients, as their requests name them."""
    return "".join(f'"{base64.b64encode(key).decode()}" 1;\n' for key in keys)


def is_loopback(host: str) -> bool:
    """Whether a host name or address is this machine's loopback."""
    try:
        return host == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def find_nginx() -> str | None:
    """The path of nginx, also where only root's PATH has it."""
    return shutil.which("nginx", path=f"{os.environ.get('PATH', '')}:/usr/sbin:/usr/local/sbin")
