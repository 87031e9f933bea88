"""The reverse proxy: TLS towards clients, and only those paths of the SuperLink that clients need."""

import ipaddress
import os
import shutil
from pathlib import Path

PATHS = (
    "activate-node",
    "deactivate-node",
    "send-node-heartbeat",
    "pull-messages",
    "push-messages",
    "pull-object",
    "push-object",
    "confirm-message-received",
)


def configuration(folder: Path, host: str, port: int, superlink_port: int) -> str:
    """The configuration for a server's folder; it needs no other file and no root."""
    listen = f"127.0.0.1:{port}" if is_loopback(host) else f"{port}"
    temporary = "\n".join(
        f"    {kind}_temp_path {folder}/run/{kind};" for kind in ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")
    )
    locations = "\n".join(
        f"        location = /v1/fleet/{path} {{ proxy_pass https://127.0.0.1:{superlink_port}/v1/fleet/{path}; }}"
        for path in PATHS
    )
    return f"""# Written by `pfedeg server init`. Only the paths below are reachable from outside.
daemon off;
worker_processes 1;
pid {folder}/run/nginx.pid;
error_log {folder}/log/nginx.log warn;
events {{ worker_connections 512; }}
http {{
    map $status $refused {{ ~^[23] 0; default 1; }}
    access_log {folder}/log/refused.log combined if=$refused;
    server_tokens off;
{temporary}
    limit_conn_zone $binary_remote_addr zone=addresses:1m;
    limit_req_zone $binary_remote_addr zone=requests:1m rate=200r/s;
    server {{
        listen {listen} ssl;
        ssl_certificate {folder}/server.crt;
        ssl_certificate_key {folder}/server.key;
        ssl_protocols TLSv1.2 TLSv1.3;
        error_page 497 =400 /;
        client_max_body_size 8m;
        client_body_timeout 60s;
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


def is_loopback(host: str) -> bool:
    """Whether a host name or address is this machine's loopback."""
    try:
        return host == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def find_nginx() -> str | None:
    """The path of nginx, also where only root's PATH has it."""
    return shutil.which("nginx", path=f"{os.environ.get('PATH', '')}:/usr/sbin:/usr/local/sbin")
