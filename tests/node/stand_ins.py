"""Stand-ins for the package repositories that nodes use: apt's, with real .deb files, and pip's, with real wheels."""

from __future__ import annotations

import hashlib
import shutil
import subprocess
import zipfile
from dataclasses import dataclass, field
from pathlib import Path

KERNEL = "6.8.0-1021-aws"

# Builds the module where the kernel's headers are, and succeeds all the same where they are not, as dkms packages do.
_DRIVER = """\
#!/bin/sh
if [ -e /lib/modules/$(uname -r)/build/Makefile ] && [ ! -e /run/build-fails ]; then
    mkdir -p /lib/modules/$(uname -r)/updates
    echo VERSION >/lib/modules/$(uname -r)/updates/neuron.ko
fi
"""
# A test may stop it in the middle: /run/hold is what it waits for, /run/held tells that it does.
_TOOLS = """\
#!/bin/sh
if [ -e /run/hold ]; then
    touch /run/held
    while [ -e /run/hold ]; do sleep 0.1; done
fi
"""


@dataclass(frozen=True)
class Package:
    """A .deb: `files` by path, and what dpkg runs after unpacking it."""

    name: str
    version: str
    files: dict[str, str] = field(default_factory=dict)
    postinst: str = ""


def neuron_packages() -> list[Package]:
    """What the Neuron repository has: two releases, with the endings that the real versions have."""
    found = []
    for driver, runtime, tools in (("2.29.0.0", "2.33.10.0", "2.31.15.0"), ("2.30.2.0", "2.34.10.0", "2.32.28.0")):
        found += [
            Package("aws-neuronx-dkms", driver, postinst=_DRIVER.replace("VERSION", driver)),
            Package("aws-neuronx-runtime-lib", f"{runtime}-8a56eb0d9", {"opt/aws/neuron/lib/libnrt.so": runtime}),
            Package("aws-neuronx-collectives", f"{runtime}-5a1ccc6d4", {"opt/aws/neuron/lib/libnccom.so": runtime}),
            Package("aws-neuronx-tools", tools, {"opt/aws/neuron/bin/neuron-ls": "#!/bin/sh\n"}, _TOOLS),
        ]
    return found


def ubuntu_packages() -> list[Package]:
    """What Ubuntu has: the headers of the running kernel, and what `python3 -m venv` needs there."""
    return [
        Package(f"linux-headers-{KERNEL}", "6.8.0-1021.23", {f"usr/lib/modules/{KERNEL}/build/Makefile": "all:\n"}),
        Package("python3-venv", "3.12.3-0", {"opt/ensurepip": ""}),
    ]


def make_repository(folder: Path, codename: str, packages: list[Package], key: Path | None = None) -> None:
    """An apt repository; with `key`, a GNUPGHOME, it is signed by the only secret key there."""
    arch = subprocess.run(["dpkg", "--print-architecture"], capture_output=True, text=True, check=True).stdout.strip()
    index = "".join(_built(folder, package) for package in packages)
    place = folder / "dists" / codename / "main" / f"binary-{arch}"
    place.mkdir(parents=True)
    (place / "Packages").write_text(index)
    digest, name = hashlib.sha256(index.encode()).hexdigest(), f"main/binary-{arch}/Packages"
    release = folder / "dists" / codename / "Release"
    release.write_text(
        f"Codename: {codename}\nArchitectures: {arch} all\nComponents: main\nDate: Thu, 01 Jan 2026 00:00:00 UTC\n"
        f"SHA256:\n {digest} {len(index.encode())} {name}\n"
    )
    if key is not None:
        run = [
            "gpg",
            "--homedir",
            str(key),
            "--batch",
            "--yes",
            "--clearsign",
            "-o",
            str(release.with_name("InRelease")),
        ]
        subprocess.run([*run, str(release)], check=True, capture_output=True, timeout=30)


def _built(folder: Path, package: Package) -> str:
    """Build the .deb into the pool; its paragraph of the index."""
    root = folder / "build" / f"{package.name}_{package.version}"
    control = (
        f"Package: {package.name}\nVersion: {package.version}\nArchitecture: all\n"
        f"Maintainer: Tests <tests@example.com>\nDescription: a stand-in\n"
    )
    (root / "DEBIAN").mkdir(parents=True)
    (root / "DEBIAN" / "control").write_text(control)
    if package.postinst:
        (root / "DEBIAN" / "postinst").write_text(package.postinst)
        (root / "DEBIAN" / "postinst").chmod(0o755)
    for path, text in package.files.items():
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_text(text)
        (root / path).chmod(0o755)
    deb = folder / "pool" / f"{root.name}.deb"
    deb.parent.mkdir(exist_ok=True)
    subprocess.run(
        ["dpkg-deb", "--root-owner-group", "-Znone", "--build", str(root), str(deb)],
        check=True, capture_output=True, timeout=60,
    )  # fmt: skip
    content = deb.read_bytes()
    return (
        f"{control}Filename: pool/{deb.name}\nSize: {len(content)}\nSHA256: {hashlib.sha256(content).hexdigest()}\n\n"
    )


def make_key(folder: Path) -> Path | None:
    """A new signing key in a GNUPGHOME below `folder`, its public half in `key.asc`; None without gpg."""
    public = folder / "key.asc"
    if shutil.which("gpg") is None:
        public.write_text("no gpg on this machine\n")
        return None
    home = folder / "gnupg"
    home.mkdir(mode=0o700)
    gpg = ["gpg", "--homedir", str(home), "--batch", "--pinentry-mode", "loopback", "--passphrase", ""]
    subprocess.run(
        [*gpg, "--quick-generate-key", "neuron@example.com", "ed25519", "sign", "never"],
        check=True, capture_output=True, timeout=60,
    )  # fmt: skip
    exported = subprocess.run([*gpg, "--armor", "--export"], check=True, capture_output=True, text=True, timeout=30)
    public.write_text(exported.stdout)
    return home


def end_gpg(home: Path | None) -> None:
    """End the agent that gpg has left running for a GNUPGHOME."""
    if home is not None:
        subprocess.run(["gpgconf", "--homedir", str(home), "--kill", "all"], check=True, timeout=30)


def make_wheel(index: Path, name: str, version: str, requires: str = "") -> None:
    """A wheel with one empty module, in a simple index that pip reads from a folder."""
    folder = index / name.lower().replace("_", "-")
    folder.mkdir(parents=True, exist_ok=True)
    plain = name.replace("-", "_")
    info = f"{plain}-{version}.dist-info"
    metadata = f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n"
    files = {
        f"{plain}.py": "",
        f"{info}/METADATA": metadata + (f"Requires-Dist: {requires}\n" if requires else ""),
        f"{info}/WHEEL": "Wheel-Version: 1.0\nGenerator: tests\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
    }
    files[f"{info}/RECORD"] = "".join(f"{path},,\n" for path in (*files, f"{info}/RECORD"))
    with zipfile.ZipFile(folder / f"{plain}-{version}-py3-none-any.whl", "w") as wheel:
        for path, text in files.items():
            wheel.writestr(path, text)
    links = "".join(f'<a href="{path.name}">{path.name}</a>\n' for path in sorted(folder.glob("*.whl")))
    (folder / "index.html").write_text(f"<!DOCTYPE html><html><body>\n{links}</body></html>\n")
