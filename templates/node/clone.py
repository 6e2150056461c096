"""Fetch a repository at a pinned commit, for the preparer. Standard library only, Python 3.6 and newer."""

import os
import re
import shutil
import subprocess
from contextlib import suppress
from pathlib import Path

from needs import Failed

SECONDS = 3600
# git's own words (2.17 to 2.47), in the C locale.
SAID = (
    (r"Could not resolve host|Temporary failure in name resolution|Failed to connect|Connection timed out|"
     r"Network is unreachable|Connection refused|Operation too slow|Could not resolve hostname", "network"),
    (r"could not read Username|Authentication failed|terminal prompts disabled|Permission denied \(publickey|"
     r"[Rr]epository not found|Repository .* not found|HTTP 40[13]|returned error: 40[13]|Host key verification failed",
     "access"),
    (r"does not appear to be a git repository|returned error: 404|repository '.*' not found|does not exist", "absent"),
    (r"not our ref|[Cc]ouldn't find remote ref|did not match any|bad object|reference is not a tree", "absent"),
    (r"No space left on device|Disk quota exceeded", "space"),
)  # fmt: skip


def fetch(need, tell):
    """Clone beside its place, check the commit out, and move it there in one step."""
    wanted, target = need["fetch"], Path(need["fetch"]["target"])
    part = target.with_name(target.name + ".part")
    tell("fetches {} at {}".format(wanted["repository"], wanted["commit"][:12]))
    if not (part / ".git").is_dir():
        shutil.rmtree(str(part), ignore_errors=True)
        part.mkdir(parents=True)
        git(part, "init", "-q")
    try:
        git(part, "fetch", "-q", "--depth", "1", wanted["repository"], wanted["commit"])
    except Failed as failed:
        if "unadvertised" not in failed.message:
            raise
        # An old server gives a commit only to who fetches everything.
        git(part, "fetch", "-q", wanted["repository"], "+refs/heads/*:refs/remotes/all/*", "+refs/tags/*:refs/tags/*")
    git(part, "checkout", "-q", "--force", "--detach", wanted["commit"])
    found = git(part, "rev-parse", "HEAD").strip()
    if found != wanted["commit"]:
        raise Failed("checksum", "{} gave commit {}, not {}".format(wanted["repository"], found, wanted["commit"]))
    if (part / ".gitmodules").is_file():
        git(part, "submodule", "update", "-q", "--init", "--recursive", "--depth", "1")
    if target.exists():  # without what the recipe names: something else, or a clone that broke off
        aside = target.with_name(target.name + ".old")
        shutil.rmtree(str(aside), ignore_errors=True)
        target.rename(aside)
        tell.say(f"what lay at {target} is kept as {aside}")
    part.rename(target)


def git(folder, *words):
    """Run git in a folder; what it printed. It never asks, and gives up on a line that is dead."""
    program = shutil.which("git")
    if program is None:
        raise Failed("tool", "git is not installed on the head node")
    environment = dict(os.environ, LC_ALL="C", GIT_TERMINAL_PROMPT="0", GIT_ASKPASS="true")
    environment.setdefault("GIT_SSH_COMMAND", "ssh -o BatchMode=yes -o ConnectTimeout=30")
    slow = ["-c", "http.lowSpeedLimit=1000", "-c", "http.lowSpeedTime=60", "-c", "advice.detachedHead=false"]
    argv = [program, *slow, "-C", str(folder), *words]
    null, pipe = subprocess.DEVNULL, subprocess.PIPE
    process = subprocess.Popen(argv, stdin=null, stdout=pipe, stderr=pipe, env=environment, universal_newlines=True)
    try:
        out, err = process.communicate(timeout=SECONDS)
    except subprocess.TimeoutExpired as error:
        process.kill()
        with suppress(subprocess.TimeoutExpired):  # a program that git has started may hold its output
            process.communicate(timeout=5)
        raise Failed("network", f"git {words[0]} did not end within {SECONDS // 60} minutes") from error
    if process.returncode:
        raise refusal(words, err)
    return out


def refusal(words, said):
    """What git's words mean."""
    lines = [line.strip() for line in said.splitlines() if line.strip()]
    last = next((line for line in lines if line.startswith(("fatal:", "error:"))), lines[-1] if lines else "(nothing)")
    kind = next((kind for pattern, kind in SAID if re.search(pattern, said)), "fault")
    kind = "access" if kind == "fault" and "Could not read from remote repository" in said else kind
    remedy = "" if kind != "fault" else "Run it on the head node to see more: git " + " ".join(words)
    return Failed(kind, f"git {words[0]} failed: {last}", remedy)
