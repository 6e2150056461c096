"""A fake account and a world without AWS, in which the machines run for real; also a trial of its own process."""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from trnctl.sandbox.machines.cluster import Pace
from trnctl.sandbox.machines.local import LocalMachines
from trnctl.sandbox.machines.ssh import remove_privilege_folder
from trnctl.sandbox.ports import HeadNodeBoot, NodeInstance, NodeWish, Refusal
from trnctl.sandbox.processes import Register

HEAD_IP = "198.51.100.7"


class FakeAccount:
    """Grants every launch, but for `refusals` more nodes; remembers what was asked."""

    def __init__(self) -> None:
        self.launched: list[NodeWish] = []
        self.terminated: list[str] = []
        self.abandoned: list[str] = []
        self.fleets: dict[str, str] = {}
        self.refusals = 0
        self.objects: dict[str, str] = {}
        self.sent: dict[str, list[str]] = {}

    def launch(self, cluster: str, wishes: Sequence[NodeWish]) -> list[NodeInstance | Refusal]:
        answers: list[NodeInstance | Refusal] = []
        for wish in wishes:
            if self.refusals:
                self.refusals -= 1
                answers.append(Refusal(wish.name, "InsufficientInstanceCapacity", "none left"))
            else:
                self.launched.append(wish)
                number = len(self.launched)
                answers.append(NodeInstance(wish.name, f"i-{number:017x}", f"10.0.{number // 250}.{number % 250 + 1}"))
        return answers

    def terminate(self, cluster: str, names: Sequence[str]) -> None:
        self.terminated += names

    def shut_down(self, cluster: str, names: Sequence[str]) -> None:
        self.terminated += names

    def send_logs(self, cluster: str, stream: str, lines: Sequence[str]) -> None:
        self.sent.setdefault(stream, []).extend(lines)

    def read_object(self, place: str) -> str:
        return self.objects.get(place, "")

    def abandon(self, cluster: str, names: Sequence[str]) -> None:
        self.abandoned += names

    def end_abandoned(self, cluster: str) -> None:
        self.terminated += self.abandoned
        self.abandoned.clear()

    def put_fleet(self, cluster: str, status: str) -> None:
        self.fleets[cluster] = status


@contextmanager
def serving(routes: Mapping[str, Callable[[Mapping[str, Any]], Mapping[str, Any]]]) -> Iterator[str]:
    """Serve control routes on a loopback port, as the account's HTTP door does; the URL."""

    class Door(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            try:
                status, answer = 200, dict(routes[self.path](asked))
            except LookupError as error:
                status, answer = 400, {"error": str(error)}
            body = json.dumps(answer).encode()
            self.send_response(status)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the base class's name
            """Say nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Door)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()


class Trial:
    """Machines in a home of their own, and ways to look at them."""

    def __init__(self, home: Path, runtime: Path, pace: Pace) -> None:
        self.home, self.runtime, self.account = home, runtime, FakeAccount()
        self.machines = LocalMachines(home, runtime, Register(home / "processes.jsonl"), pace)
        self.machines.account = self.account

    def boot(self, cluster: str, queues: Sequence[Mapping[str, Any]], ip: str = HEAD_IP, **slurm: object) -> None:
        self.machines.boot(
            HeadNodeBoot(
                cluster, "us-west-2", "i-0", ip, "10.9.9.9", config(queues, **slurm), {"/fsx": f"fs-{cluster}"}
            )
        )

    def ssh(self, command: str, ip: str = HEAD_IP, *, check: bool = True) -> subprocess.CompletedProcess[str]:
        """Run a shell command on a head node."""
        argv = ["ssh", "-F", str(self.home / "ssh_config"), ip, command]
        done = subprocess.run(argv, capture_output=True, text=True, stdin=subprocess.DEVNULL, timeout=60, check=False)
        assert not check or done.returncode == 0, f"{command}: {done.returncode}: {done.stdout}{done.stderr}"
        return done

    def job(self, nodes: str, command: str, *options: str) -> str:
        """Submit a job; its id. Its output goes to ~/<id>.out."""
        wrap = command.replace("'", "'\\''")
        return self.ssh(f"sbatch --parsable {nodes} {' '.join(options)} -o '%j.out' --wrap '{wrap}'").stdout.strip()

    def picture(self) -> str:
        """Jobs, nodes and the controller's last words, for a failure's message."""
        return self.ssh("squeue -o '%i %T %r %N'; sinfo -N -o '%N %T %E'; tail -25 ~/../../../log/slurmctld.log").stdout

    def state(self, job: str) -> str:
        """Slurm's word for a job's state."""
        return self.ssh(f"squeue -h -t all -j {job} -o %T").stdout.strip()


@contextmanager
def trial(home: Path, pace: Pace) -> Iterator[Trial]:
    """A trial with its routes served; everything ends with it."""
    runtime = Path(tempfile.mkdtemp(prefix="trnctl-", dir="/tmp"))
    runtime.chmod(0o711)
    home.mkdir(parents=True, exist_ok=True)
    made = Trial(home, runtime, pace)
    with serving(made.machines.routes()) as made.machines.endpoint:
        try:
            yield made
        finally:
            made.machines.close()
            runtime.rmdir()
            remove_privilege_folder()


def config(queues: Sequence[Mapping[str, Any]], **slurm: object) -> dict[str, Any]:
    """A ParallelCluster configuration as far as the machines read it."""
    scheduling = {"Scheduler": "slurm", "SlurmSettings": slurm, "SlurmQueues": list(queues)}
    return {"Image": {"Os": "ubuntu2404"}, "Scheduling": scheduling}


def queue(name: str, *resources: Mapping[str, Any], **more: object) -> dict[str, Any]:
    """A queue of the configuration."""
    return {"Name": name, "ComputeResources": list(resources), "Networking": {"SubnetIds": ["subnet-1"]}, **more}


def resource(name: str, most: int, least: int = 0, instance_type: str = "trn1.32xlarge") -> dict[str, Any]:
    """A compute resource of the configuration."""
    return {
        "Name": name, "InstanceType": instance_type, "MinCount": least, "MaxCount": most, "Efa": {"Enabled": True},
    }  # fmt: skip


def eventually(
    holds: Callable[[], bool], seconds: float, what: str, *, otherwise: Callable[[], str] = lambda: ""
) -> float:
    """Wait until something holds; how long it took. `otherwise` tells more when it never does."""
    start = time.monotonic()
    while not holds():
        assert time.monotonic() - start < seconds, f"{what}: not within {seconds} seconds. {otherwise()}"
        time.sleep(0.1)
    return time.monotonic() - start


def main(home: Path) -> None:
    """One cluster from boot to shut-down, as whoever runs this: prints what was seen, as JSON."""
    with trial(home, Pace(boot_seconds=0.1)) as made:
        made.boot("plain", [queue("q", resource("r", 2))])
        job = made.job("-N2", "srun hostname")
        eventually(lambda: made.state(job) == "COMPLETED", 30, "the job ends")
        seen = {
            "user": made.ssh("id -un").stdout.strip(),
            "home": made.ssh("pwd").stdout.strip(),
            "job": sorted(made.ssh(f"cat {job}.out").stdout.split()),
            "hop": made.ssh("ssh q-dy-r-1 hostname").stdout.strip(),
        }
    print(json.dumps(seen))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
