"""A machine for the node scripts to change, made of this one's files; every write to it is gone with it.

It is a mount namespace and a process namespace, of root or of a plain user. Its root is in memory: /usr and /etc are
this machine's, seen through overlays, the rest is new, with an empty dpkg, Ubuntu's name, and stand-ins for what
belongs to a kernel: `uname`, `modprobe`, `modinfo`, `systemctl`, `ip`. apt, dpkg, python, pip, awk and so on are real.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from tests.node.stand_ins import KERNEL

NAMESPACES = ["unshare", "--mount", "--pid", "--fork", "--kill-child", "--propagation", "private"]
NEEDED = ("unshare", "nsenter", "chroot", "apt-get", "dpkg", "dpkg-deb", "curl", "flock")
_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

_SET_UP = r"""
set -e
base=$1 stand_ins=$2 python=$3 skeleton=$4
mount -t tmpfs tmpfs "$base"
cd "$base"
mkdir root
seen_through() { # FOLDER: as on this machine, but writable without changing it
    mkdir -p "$base/upper$1" "$base/work$1" "$base/root$1"
    mount -t overlay overlay -o "lowerdir=$1,upperdir=$base/upper$1,workdir=$base/work$1" "$base/root$1"
}
for folder in /usr /etc /bin /sbin /lib /lib32 /lib64 /libx32; do
    if [ -h "$folder" ]; then
        cp -P "$folder" "root$folder"
    elif [ -d "$folder" ]; then
        seen_through "$folder"
    fi
done
cd root
mkdir -p proc dev sys run/lock tmp root home opt mnt fsx stand-ins var/log var/tmp
mkdir -p var/lib/dpkg/info var/lib/dpkg/updates var/lib/dpkg/triggers
mkdir -p var/lib/apt/lists/partial var/cache/apt/archives/partial
chmod 1777 tmp var/tmp
ln -s ../run var/run
touch var/lib/dpkg/status var/lib/dpkg/available
mount -t proc proc proc
for device in null zero full random urandom; do
    touch "dev/$device"
    mount --bind "/dev/$device" "dev/$device"
done
ln -s /proc/self/fd dev/fd
mkdir -p dev/shm dev/pts
mount -t devpts -o newinstance,ptmxmode=0666 devpts dev/pts
ln -s pts/ptmx dev/ptmx
mount --bind "$stand_ins" stand-ins
case $python in
    /usr*) ;;
    *) mkdir -p "./$python" && mount --bind "$python" "./$python" ;;
esac
for folder in etc/apt lib/modules; do # dpkg moves folders, which not every overlay lets it
    mkdir -p "$folder"
    mount -t tmpfs tmpfs "$folder"
done
mkdir -p etc/apt/apt.conf.d etc/apt/sources.list.d etc/apt/preferences.d etc/apt/trusted.gpg.d etc/security/limits.d
cp -r "$skeleton/." .
echo ready
exec cat # until whoever made the machine closes its end, or dies
"""

_TRIAL = """
mount -t tmpfs tmpfs /mnt && cd /mnt && mkdir upper work root &&
    mount -t overlay overlay -o lowerdir=/etc,upperdir=upper,workdir=work root
"""

_STAND_INS = {
    "usr/local/sbin/uname": f"""\
#!/bin/sh
case $1 in
    -r) echo {KERNEL} ;;
    -n) cat /etc/hostname ;;
    *) exec /usr/bin/uname "$@" ;;
esac
""",
    "usr/local/sbin/modinfo": """\
#!/bin/sh
cat "/lib/modules/$2/updates/neuron.ko"
""",
    "usr/local/sbin/modprobe": """\
#!/bin/sh
echo "$*" >>/run/modprobe.log
if [ "$1" = -r ]; then rm -rf /sys/module/neuron; exit; fi
mkdir -p /sys/module/neuron
cat "/lib/modules/$(uname -r)/updates/neuron.ko" >/sys/module/neuron/version || exit 1
for number in $(seq 0 $(($(cat /run/devices) - 1))); do touch "/dev/neuron$number"; done
""",
    "usr/local/sbin/systemctl": """\
#!/bin/sh
echo "$*" >>/run/systemctl.log
""",
    "usr/local/sbin/ip": """\
#!/bin/sh
case "$*" in
    *route*) cat /run/routes ;;
    *addr*ens32*) echo "2: ens32    inet 10.0.1.12/20 brd 10.0.15.255 scope global ens32" ;;
    *) exit 1 ;;
esac
""",
    "opt/amazon/efa/bin/fi_info": """\
#!/bin/sh
[ -s /run/adapters ] || exit 61
for number in $(seq $(cat /run/adapters)); do
    for fabric in efa efa-direct; do
        printf 'provider: efa\\n    fabric: %s\\n    domain: rdmap%ss27-rdm\\n    type: FI_EP_RDM\\n' $fabric "$number"
    done
done
""",
    "etc/os-release": 'ID=ubuntu\nVERSION_ID="24.04"\nVERSION_CODENAME=noble\n',
    "etc/hostname": "compute1-dy-i1-1\n",
    "etc/hosts": "127.0.0.1 localhost\n10.0.1.12 compute1-dy-i1-1.ultra1.pcluster compute1-dy-i1-1\n",
    "etc/pip.conf": "[global]\nindex-url = file:///stand-ins/pypi\n",
    "etc/apt/sources.list": "deb [trusted=yes] file:/stand-ins/ubuntu noble main\n",
    # There is no user _apt to fall back to in a namespace with one user; packages must see the stand-ins, too.
    "etc/apt/apt.conf.d/01tests": f'APT::Sandbox::User "root";\nDPkg::Path "{_PATH}";\n',
    "etc/security/limits.d/01_efa.conf": "# of EFA's installer\n* soft nofile 8192\n* hard nofile 131072\n",
    "run/routes": "default via 10.0.16.1 dev ens33 proto dhcp src 10.0.1.77 metric 600\n"
    "default via 10.0.0.1 dev ens32 proto dhcp src 10.0.1.12 metric 512\n",
    "run/devices": "16\n",
    "run/adapters": "8\n",
    "sys/devices/virtual/dmi/id/product_name": "trn1.32xlarge\n",
}


def missing() -> str:
    """Why no such machine can be made here; '' when it can."""
    absent = [
        program for program in NEEDED if shutil.which(program, path=f"{os.environ.get('PATH', '')}:{_PATH}") is None
    ]
    if absent:
        return f"these programs are not installed: {', '.join(absent)}"
    tried = subprocess.run(
        [*_namespaces(), "sh", "-c", _TRIAL], capture_output=True, text=True, timeout=30, check=False
    )
    return f"this machine allows no namespace with an overlay: {tried.stderr.strip()}" if tried.returncode else ""


def _namespaces() -> list[str]:
    return NAMESPACES if os.geteuid() == 0 else [*NAMESPACES, "--map-root-user"]


class Machine:
    """A made machine; made by `machine`."""

    def __init__(self, holder: subprocess.Popen[str], root: Path) -> None:
        self._holder, self._root = holder, root

    def start(self, *argv: str, environ: Mapping[str, str] | None = None, user: str = "") -> subprocess.Popen[str]:
        """Start a command in it; stdout and stderr come together."""
        place = f"/proc/{self._holder.pid}/ns"
        enter = ["nsenter", f"--mount={place}/mnt", f"--pid={place}/pid_for_children"]
        if os.geteuid() != 0:
            enter += [f"--user={place}/user", "--preserve-credentials"]
        change = ["chroot", *([f"--userspec={user}"] if user else []), str(self._root), "env", "-i"]
        words = [f"{name}={value}" for name, value in {"PATH": _PATH, "HOME": "/root", **(environ or {})}.items()]
        return subprocess.Popen(
            [*enter, *change, *words, *argv],
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL, text=True, cwd="/",
        )  # fmt: skip

    def run(self, *argv: str, timeout: float = 60, user: str = "") -> tuple[int, str]:
        """Run a command in it to its end: exit code and output."""
        process = self.start(*argv, user=user)
        try:
            output, _ = process.communicate(timeout=timeout)
        except subprocess.TimeoutExpired:
            self.power_cut()
            output, _ = process.communicate(timeout=10)
            raise AssertionError(f"{argv[0]} did not end within {timeout} s; it said:\n{output}") from None
        return process.returncode, output

    def read(self, path: str) -> str:
        """The text of a file; '' when it is not there."""
        code, output = self.run("cat", path)
        return output if code == 0 else ""

    def write(self, path: str, text: str, mode: str = "644") -> None:
        """Write a file, with its folders."""
        made = 'mkdir -p "$(dirname "$1")" && printf %s "$2" >"$1" && chmod "$3" "$1"'
        code, output = self.run("sh", "-c", made, "sh", path, text, mode)
        assert code == 0, output

    def exists(self, path: str) -> bool:
        """Whether something is there."""
        return self.run("test", "-e", path)[0] == 0

    def wait_for(self, path: str, timeout: float = 30) -> None:
        """Wait until something is there."""
        code, _ = self.run("sh", "-c", f"while [ ! -e {path} ]; do sleep 0.05; done", timeout=timeout)
        assert code == 0

    def power_cut(self) -> None:
        """End everything that runs in it, at once and without a warning; its files stay."""
        self.run("sh", "-c", "kill -9 -1", timeout=10)


@contextmanager
def machine(folder: Path, stand_ins: Path) -> Iterator[Machine]:
    """A new machine for the block; nothing of it is left after it."""
    base = folder / "machine"
    base.mkdir()
    prefix = str(Path(sys.base_prefix).resolve())
    skeleton = _skeleton(folder / "skeleton", prefix)
    holder = subprocess.Popen(
        [*_namespaces(), "sh", "-c", _SET_UP, "sh", str(base), str(stand_ins), prefix, str(skeleton)],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    assert holder.stdin is not None
    assert holder.stdout is not None
    assert holder.stderr is not None
    try:
        said = holder.stdout.readline()
        assert said == "ready\n", f"the machine could not be made: {holder.stderr.read()}"
        yield Machine(holder, base / "root")
    finally:
        holder.stdin.close()
        holder.wait(timeout=30)
        holder.stdout.close()
        holder.stderr.close()
        _until_unmounted(base)


def _skeleton(folder: Path, prefix: str) -> Path:
    """The files that the machine has of its own."""
    python = f'#!/bin/sh\nexec {prefix}/bin/python3.{sys.version_info[1]} "$@"\n'
    for name, text in {**_STAND_INS, "usr/local/sbin/python3": python}.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        path.chmod(0o755 if text.startswith("#!") else 0o644)
    return folder


def _until_unmounted(base: Path, timeout: float = 10) -> None:
    """The mounts go with the namespace's last process, which may take a moment."""
    limit = time.monotonic() + timeout
    while time.monotonic() < limit and any(base.iterdir()):
        time.sleep(0.05)
    base.rmdir()
