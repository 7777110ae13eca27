"""Builds the wheel (PEP 517): has cargo build the library, and packs it with the Python module.

Of the standard library alone. The wheel is the same, byte for byte, whenever the library is. Its tag
says which systems take it: the library runs with glibc 2.28, which a test of the library checks. With
the setting `target=x86_64-unknown-linux-musl`, and on Alpine without it, it is for musl.
"""

import base64
import csv
import hashlib
import io
import os
import platform
import shutil
import subprocess
import sysconfig
import tomllib
import zipfile
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent.parent
MODULE = "steppe_malloc"
# The first date that a zip file can have.
DATE = (1980, 1, 1, 0, 0, 0)


def get_requires_for_build_wheel(config_settings=None):
    return []


def build_wheel(wheel_directory, config_settings=None, metadata_directory=None):
    with open(ROOT / "Cargo.toml", "rb") as file:
        version = tomllib.load(file)["workspace"]["package"]["version"]
    target = (config_settings or {}).get("target", own_target())
    machine = target.partition("-")[0]
    system = "musllinux_1_2" if target.endswith("-musl") else "manylinux_2_28"
    tag = f"py3-none-{system}_{machine}"
    information = f"{MODULE}-{version}.dist-info"
    files = {f"{MODULE}/{source.name}": source.read_bytes() for source in sorted((HERE / MODULE).glob("*.py"))}
    files[f"{MODULE}/libsteppe_malloc.so"] = build_library(target).read_bytes()
    licenses = ["LICENSE-APACHE", "LICENSE-MIT"]
    for name in licenses:
        files[f"{information}/licenses/{name}"] = (ROOT / name).read_bytes()
    files[f"{information}/METADATA"] = metadata(version, licenses).encode()
    files[f"{information}/WHEEL"] = (
        f"Wheel-Version: 1.0\nGenerator: steppe-malloc {version}\nRoot-Is-Purelib: false\nTag: {tag}\n"
    ).encode()
    # Last, as the specification recommends; it has no hash of itself.
    files[f"{information}/RECORD"] = record(files, f"{information}/RECORD").encode()
    name = f"{MODULE}-{version}-{tag}.whl"
    with zipfile.ZipFile(Path(wheel_directory) / name, "w", zipfile.ZIP_DEFLATED) as wheel:
        for path, content in files.items():
            entry = zipfile.ZipInfo(path, DATE)
            entry.compress_type = zipfile.ZIP_DEFLATED
            mode = 0o755 if path.endswith(".so") else 0o644
            entry.external_attr = (0o100000 | mode) << 16
            wheel.writestr(entry, content)
    return name


def own_target():
    """The target of cargo that this Python runs on."""
    is_musl = "musl" in (sysconfig.get_config_var("HOST_GNU_TYPE") or "")
    return f"{platform.machine()}-unknown-linux-{'musl' if is_musl else 'gnu'}"


def build_library(target):
    build = ["cargo", "build", "--locked", "--profile", "release-malloc", "--package", "steppe-malloc-abi"]
    environment = dict(os.environ)
    folder = Path(ROOT, os.environ.get("CARGO_TARGET_DIR", "target"))
    if target.endswith("-musl"):
        # Rust has musl inside otherwise, and no shared library.
        environment["RUSTFLAGS"] = "-C target-feature=-crt-static"
        # Where the compiler of the machine is not musl's own.
        if shutil.which("musl-gcc"):
            environment["RUSTFLAGS"] += " -C linker=musl-gcc"
    elif target == own_target():
        # The place of every other build.
        target = ""
    if target:
        build += ["--target", target]
    subprocess.run(build, cwd=ROOT, env=environment, check=True)
    return folder / target / "release-malloc" / "libsteppe_malloc.so"


def metadata(version, licenses):
    with open(HERE / "pyproject.toml", "rb") as file:
        project = tomllib.load(file)["project"]
    fields = [
        ("Metadata-Version", "2.4"),
        ("Name", project["name"]),
        ("Version", version),
        ("Summary", project["description"]),
        ("Keywords", ",".join(project["keywords"])),
        ("License-Expression", project["license"]),
        *(("License-File", name) for name in licenses),
        *(("Classifier", classifier) for classifier in project["classifiers"]),
        ("Requires-Python", project["requires-python"]),
        ("Description-Content-Type", "text/markdown"),
    ]
    lines = [f"{name}: {value}\n" for name, value in fields]
    return "".join(lines) + "\n" + (HERE / project["readme"]).read_text()


def record(files, own_path):
    text = io.StringIO()
    rows = csv.writer(text, lineterminator="\n")
    for path, content in files.items():
        digest = base64.urlsafe_b64encode(hashlib.sha256(content).digest()).rstrip(b"=").decode()
        rows.writerow([path, f"sha256={digest}", len(content)])
    rows.writerow([own_path, "", ""])
    return text.getvalue()
