"""Make the virtual environment of a recipe, for the preparer: its packages on top of the node software's PyTorch.

The environment sees all that the one below it has, and starts that one's programs (torchrun, neuron_parallel_compile)
with its own Python, so that a worker finds the packages of both. Its name tells what it contains; a file `complete` in
it, that it was made to its end. Standard library only, Python 3.6 and newer.
"""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

from folder import now, write
from needs import Failed

SECONDS = 3600
EXTRA_INDEX = "https://pip.repos.neuron.amazonaws.com"
SAID = (  # of pip and venv, 9 to 26
    (r"No space left on device|Disk quota exceeded", "space"),
    (r"No matching distribution found|ResolutionImpossible|conflicting dependencies|Failed building wheel|"
     r"Could not build wheels|subprocess-exited-with-error", "package"),
    (r"Temporary failure in name resolution|Failed to establish a new connection|Connection refused|timed out|"
     r"Network is unreachable|Max retries exceeded", "network"),
    (r"ensurepip is not available|No module named ensurepip", "tool"),
)  # fmt: skip


def fetch(need, tell):
    """Make the environment anew; what a try that broke off has left is removed first."""
    wanted = need["fetch"]
    target, base = Path(wanted["target"]), Path(wanted["base"])
    shutil.rmtree(str(target), ignore_errors=True)
    tell("makes the environment of {}".format(", ".join(wanted["packages"])))
    below = base / "bin" / "python"
    has_base = below.exists()
    if not has_base:
        tell.say(f"there is no {below} on the head node: the environment stands on the system's own Python")
    run([str(below) if has_base else sys.executable, "-m", "venv", "--without-pip", str(target)])
    python = str(target / "bin" / "python")
    if has_base:
        see_through(python, target, below)
    if run_code([python, "-c", "import pip"]):
        run([python, "-m", "ensurepip"])
    pip = [python, "-m", "pip", "install", "--no-input", "--disable-pip-version-check", "--retries", "5"]
    run([*pip, "--timeout", "30", "--extra-index-url", EXTRA_INDEX, *wanted["packages"]])
    if has_base:
        bring_programs(target, base)
    write(target / "complete", now() + "\n")


def see_through(python, target, below):
    """Let the environment find the packages of the one below it, behind its own."""
    folders = [run([one, "-c", "import sysconfig; print(sysconfig.get_paths()['purelib'])"]).strip() for one in
               (python, str(below))]  # fmt: skip
    write(Path(folders[0]) / "below.pth", folders[1] + "\n")


def bring_programs(target, base):
    """The programs of the environment below, started with this one's Python; what is no Python, by a link."""
    first = re.compile(rb"#!.*python[0-9.]*\s*\n")
    for program in sorted((base / "bin").iterdir()):
        own = target / "bin" / program.name
        if own.exists() or not program.is_file() or program.is_symlink():
            continue
        text = program.read_bytes()
        shebang = first.match(text[:300])
        if shebang:
            own.write_bytes(b"#!" + os.fsencode(str(target / "bin" / "python")) + b"\n" + text[shebang.end() :])
            own.chmod(0o755)
        elif os.access(str(program), os.X_OK):
            own.symlink_to(program)


def run_code(argv):
    """The exit code of a command."""
    null = subprocess.DEVNULL
    return subprocess.call(argv, stdin=null, stdout=null, stderr=null, timeout=120)


def run(argv):
    """Run a command; what it printed. Its words say what went wrong."""
    environment = {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "PYTHONHOME")}
    environment.update(LC_ALL="C", PIP_NO_COLOR="1")
    null, pipe = subprocess.DEVNULL, subprocess.PIPE
    process = subprocess.Popen(argv, stdin=null, stdout=pipe, stderr=pipe, env=environment, universal_newlines=True)
    try:
        out, err = process.communicate(timeout=SECONDS)
    except subprocess.TimeoutExpired as error:
        process.kill()
        process.communicate()
        raise Failed("network", f"{' '.join(argv[1:4])} did not end within {SECONDS // 60} minutes") from error
    if process.returncode:
        print(out + err, flush=True)
        raise refusal(argv, out + err)
    return out


def refusal(argv, said):
    """What the words of pip or venv mean."""
    lines = [line.strip() for line in said.splitlines() if line.strip()]
    errors = [line for line in lines if line.startswith("ERROR:")] or lines[-1:] or ["(nothing)"]
    kind = next((kind for pattern, kind in SAID if re.search(pattern, said)), "package")
    remedy = "Install it there: trnctl ssh -- sudo apt-get install -y python3-venv." if kind == "tool" else ""
    return Failed(kind, f"the environment could not be made: {errors[-1]}", remedy)
