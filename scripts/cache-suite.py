#!/usr/bin/env python3
"""Runs npm's http-cache-tests against Steppe, nginx and Varnish, and prints what each of them passes.

Usage: scripts/cache-suite.py PROGRAM [FOLDER]

PROGRAM is the binary `steppe`; FOLDER (target/cache-suite) keeps the suite and the results, a JSON file a
peer. It asks the npm registry once, for the suite at the version below. Peers that are not installed are
left out, and said to be. Exits with 1 where Steppe does not pass more than every peer, and with 77
without the suite.
"""

import json
import os
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path

VERSION = "0.4.5"
ORIGIN = 28800
PORTS = {"steppe": 28801, "nginx": 28802, "varnish": 28803}

STEPPE = """
[node]
workers = 2
memory_budget = "128MiB"
[[http.listener]]
listen = "127.0.0.1:{port}"
protocols = ["h1"]
[http.upstream.origin]
servers = ["127.0.0.1:{origin}"]
[http.filter.store]
kind = "cache"
[[http.route]]
name = "all"
path = "/{{rest*}}"
upstream = "origin"
filters = ["store"]
"""

# The suite's own configuration, as its Docker image has it.
NGINX = """
daemon off;
pid {folder}/pid;
error_log {folder}/error.log;
events {{ }}
http {{
  access_log off;
  client_body_temp_path {folder}/body;
  proxy_temp_path {folder}/temp;
  fastcgi_temp_path {folder}/f; uwsgi_temp_path {folder}/u; scgi_temp_path {folder}/s;
  proxy_cache_path {folder}/cache levels=1:2 keys_zone=my-cache:8m max_size=1000m inactive=600m;
  server {{
    listen 127.0.0.1:{port};
    location / {{
      proxy_pass http://127.0.0.1:{origin};
      proxy_cache my-cache;
      proxy_cache_revalidate on;
    }}
  }}
}}
"""

VARNISH = """vcl 4.0;
backend default {{ .host = "127.0.0.1"; .port = "{origin}"; }}
"""


def wait_for(port):
    for _ in range(200):
        try:
            socket.create_connection(("127.0.0.1", port), timeout=1).close()
            return
        except OSError:
            time.sleep(0.1)
    sys.exit(f"cache-suite: nothing listens on port {port}")


def install(folder):
    suite = folder / "node_modules" / "http-cache-tests"
    if json.loads((suite / "package.json").read_text())["version"] != VERSION if suite.exists() else True:
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "package.json").write_text('{"private": true}\n')
        command = ["npm", "install", f"http-cache-tests@{VERSION}", "--omit=dev", "--no-audit", "--no-fund"]
        try:
            subprocess.run(command, cwd=folder, check=True, stdout=subprocess.DEVNULL)
        except (OSError, subprocess.CalledProcessError) as error:
            print(f"cache-suite: no suite: {error}", file=sys.stderr)
            sys.exit(77)
    return suite


def command_of(peer, program, folder):
    values = {"port": PORTS[peer], "origin": ORIGIN, "folder": folder}
    if peer == "steppe":
        (folder / "steppe.toml").write_text(STEPPE.format(**values))
        return [program, "run", "-c", str(folder / "steppe.toml")]
    if peer == "nginx":
        (folder / "nginx.conf").write_text(NGINX.format(**values))
        return ["nginx", "-c", str(folder / "nginx.conf"), "-p", str(folder)]
    (folder / "default.vcl").write_text(VARNISH.format(**values))
    options = "-p default_ttl=0 -p default_grace=0 -p default_keep=3600 -s malloc,64M"
    return (
        ["varnishd", "-F", "-j", "none", "-n", str(folder / "varnish"), "-T", "none"]
        + ["-a", f"127.0.0.1:{PORTS[peer]}", "-f", str(folder / "default.vcl")]
        + options.split()
    )


def run(peer, program, suite):
    """What the suite says of one peer, by test."""
    with tempfile.TemporaryDirectory(prefix="cache-suite-") as folder:
        folder = Path(folder)
        # nginx's workers are of another user.
        folder.chmod(0o777)
        process = subprocess.Popen(
            command_of(peer, program, folder), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
        try:
            wait_for(PORTS[peer])
            environment = dict(
                os.environ,
                npm_config_base=f"http://127.0.0.1:{PORTS[peer]}",
                # Every test: one would be named here.
                npm_config_id="",
                npm_package_config_id="",
            )
            command = ["node", "--no-warnings", "--unhandled-rejections=warn", "cli.mjs"]
            done = subprocess.run(
                command, cwd=suite, env=environment, check=True, capture_output=True, text=True
            )
        finally:
            process.terminate()
            process.wait()
    return json.loads(done.stdout[done.stdout.index("{") :])


def tests_of(suite):
    done = subprocess.run(
        ["node", "--input-type=module", "-e",
         "import tests from './tests/index.mjs'; import s from './tests/surrogate-control.mjs';"
         "tests.push(s); console.log(JSON.stringify(tests))"],
        cwd=suite, check=True, capture_output=True, text=True,
    )
    suites = json.loads(done.stdout)
    all_tests = [test for each in suites for test in each["tests"]]
    return {test["id"]: test for test in all_tests if not test.get("browser_only")}


def main():
    program = os.path.abspath(sys.argv[1])
    folder = Path(sys.argv[2] if len(sys.argv) > 2 else "target/cache-suite").absolute()
    suite = install(folder)
    environment = dict(
        os.environ,
        npm_config_protocol="http",
        npm_config_port=str(ORIGIN),
        npm_config_pidfile=str(folder / "origin.pid"),
    )
    origin = subprocess.Popen(
        ["node", "server/server.mjs"], cwd=suite, env=environment, stdout=subprocess.DEVNULL
    )
    peers = {"steppe": program, "nginx": shutil.which("nginx"), "varnish": shutil.which("varnishd")}
    results = {}
    try:
        wait_for(ORIGIN)
        for peer, found in peers.items():
            if not found:
                print(f"{peer} is not installed: left out", file=sys.stderr)
                continue
            results[peer] = run(peer, program, suite)
            (folder / f"{peer}.json").write_text(json.dumps(results[peer], indent=1) + "\n")
    finally:
        origin.terminate()
        origin.wait()
    sys.exit(report(tests_of(suite), results))


def report(tests, results):
    kinds = {"required": [], "optimal": []}
    for name, test in tests.items():
        kind = test.get("kind", "required")
        if kind in kinds:
            kinds[kind].append(name)
    passed = {
        peer: {kind: sum(result.get(name) is True for name in names) for kind, names in kinds.items()}
        for peer, result in results.items()
    }
    print("| cache | required | optimal | together |\n| --- | ---: | ---: | ---: |")
    for peer, counts in passed.items():
        cells = [f"{counts[kind]} of {len(names)}" for kind, names in kinds.items()]
        whole = sum(map(len, kinds.values()))
        print(f"| {peer} | {cells[0]} | {cells[1]} | {sum(counts.values())} of {whole} |")
    for kind, names in kinds.items():
        failed = [name for name in names if results["steppe"].get(name) is not True]
        print(f"\nSteppe does not pass, of what is {kind}:")
        for name in failed:
            said = results["steppe"].get(name)
            others = [peer for peer in results if results[peer].get(name) is True]
            print(f"- `{name}`: {said[1] if isinstance(said, list) else said}"
                  + (f" (passed by {', '.join(others)})" if others else ""))
    ours = sum(passed["steppe"].values())
    is_behind = any(sum(counts.values()) >= ours for peer, counts in passed.items() if peer != "steppe")
    return 1 if is_behind else 0


if __name__ == "__main__":
    main()
